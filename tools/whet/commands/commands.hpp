// SPDX-License-Identifier: Apache-2.0
// The small commands: report, explain, ctl, tune, inspect. Each returns the tool's exit code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace whet::tools {

enum class ReportFormat { text, json, html };

/// Where a report comes from: a process, a file that `whet run --json` wrote, else the store.
struct ReportSource {
    std::optional<std::int32_t> pid;
    std::string file;
};

/// Prints the report of a process that runs under `whet run`, of an earlier run, or of the store.
int report(const ReportSource& source, ReportFormat format);
/// Says why a shape is served as it is: of a running process, or from the store.
int explain(const std::string& shape, std::optional<std::int32_t> pid);
/// Gives a command (enable, disable, pause, resume, pin, drain, report) to a process and waits
/// until it is carried out.
int control(std::int32_t pid, const std::string& command);
/// Sends a question to the forge by whet_text_call; progress lines ("# ...") go to standard error,
/// the rest to standard output.
int ask(const std::string& request);

}  // namespace whet::tools
