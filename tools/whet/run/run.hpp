// SPDX-License-Identifier: Apache-2.0
// `whet run`: a command under Whet, watched through the control page.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/whet/run/control_host.hpp"

namespace whet::tools {

/// The command line's own exit codes.
enum ExitCode {
    kExitDone = 0,
    kExitFailed = 1,
    kExitWrongUse = 2,
    kExitNotExecutable = 126,
    kExitNotFound = 127
};

struct RunOptions {
    std::vector<std::string> command;
    std::string json_path;  ///< empty: no file
};

/// Runs the command to its end; draws the live line (when standard error is a terminal) and the
/// final table there. Returns the command's exit status, 128 + signal when a signal ended it, 127
/// or 126 when it could not be started.
int run_command(const RunOptions& options);

/// Absolute path of a library of this installation, found beside the running executable; empty when
/// it is missing.
std::string installed_library(const std::string& name);

/// A child's environment: this process's, with `changes` put in (an empty value removes the name).
std::vector<std::string> child_environment(
    const std::vector<std::pair<std::string, std::string>>& changes);

/// The variables that put a child under Whet: LD_PRELOAD (before what is there already) and
/// WHET_CONTROL. Empty, with `failure` set, when the library cannot be preloaded.
std::vector<std::pair<std::string, std::string>> preload_changes(const ControlHost& host,
                                                                 std::string& failure);

}  // namespace whet::tools
