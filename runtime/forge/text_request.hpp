// SPDX-License-Identifier: Apache-2.0
// Answers to the questions of the command line: inspect, tune, report, explain.
#pragma once

#include <functional>
#include <string>

#include "runtime/forge/workshop.hpp"

namespace whet::runtime::forge {

/// Takes a piece of an answer; `last` with the final one. False: nobody listens any more.
using WriteReply = std::function<bool(const std::string& text, bool last)>;

/// Answers one request (docs/text_calls.md). A failure is answered too: one line that begins with
/// `error: `. Lines that begin with `# ` are progress.
void answer_text(Workshop& workshop, const std::string& request, const WriteReply& write);

}  // namespace whet::runtime::forge
