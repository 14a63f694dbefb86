// SPDX-License-Identifier: Apache-2.0
// The control page as the parent sees it: makes it, reads what the children write, gives commands.
#pragma once

#include <whet/control.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace whet::tools {

/// One watched process at one moment.
struct ProcessView {
    std::int32_t pid = 0;
    bool ended = false;
    std::uint64_t acknowledged = 0;  ///< command word
    std::uint64_t sites = 0, calls = 0, served_calls = 0, trials = 0, compiles = 0, published = 0,
                  rejected = 0;
    std::uint64_t tuning_cpu_ns = 0, saved_ns = 0;
    std::string activity;
    std::string
        report;  ///< JSON; empty when none was published or it was being written all the time
};

/// Owns the page. Not thread-safe. Failures are rare and final, so they leave an empty object and a
/// sentence.
class ControlHost {
public:
    ControlHost() = default;
    ControlHost(const ControlHost&) = delete;
    ControlHost& operator=(const ControlHost&) = delete;
    ~ControlHost();

    /// Makes the page. Returns an empty string, or why it could not be made.
    std::string create();
    /// Opens the page that the environment of process `pid` names. Returns an empty string, or why
    /// not.
    std::string attach(std::int32_t pid);
    /// The value of WHET_CONTROL for children; they reach it as long as this process lives.
    const std::string& path() const { return path_; }

    /// All claimed slots; `with_reports` copies the JSON too.
    std::vector<ProcessView> read(bool with_reports) const;

    /// Gives a command to every process, also to those that start later; returns its word.
    std::uint64_t command_all(whet_control_command command);
    /// Gives a command to one process; empty when it has no slot.
    std::optional<std::uint64_t> command_one(std::int32_t pid, whet_control_command command);
    /// Waits until every living process (with a slot) has carried out `word`, polling each
    /// millisecond.
    bool wait_acknowledged(std::uint64_t word, double seconds) const;

private:
    whet_control_header* header() const { return static_cast<whet_control_header*>(mapping_); }
    whet_control_slot* slot(int index) const;
    std::string map(int descriptor);

    void* mapping_ = nullptr;
    int descriptor_ = -1;
    std::string path_;
};

}  // namespace whet::tools
