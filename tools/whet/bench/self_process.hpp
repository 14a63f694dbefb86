// SPDX-License-Identifier: Apache-2.0
// Runs this tool again as a child, for work that needs a process of its own.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace whet::bench {

/// Runs `whet ARGUMENTS` with `changes` put into the environment; standard output goes to
/// `output_path` when there is one. Returns the exit code; 128 + the signal that ended it; 127 when
/// it did not start.
int run_self(std::vector<std::string> arguments,
             const std::vector<std::pair<std::string, std::string>>& changes,
             const std::string& output_path);

/// In a child of run_self: ends with its parent, however that ends. Elsewhere: nothing.
void end_with_parent();

}  // namespace whet::bench
