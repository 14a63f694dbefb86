// SPDX-License-Identifier: Apache-2.0
// Why operations of a process are served as they are, in sentences.
#pragma once

#include <optional>
#include <string>

#include "tools/whet/report/gains.hpp"

namespace whet::tools {

/// Explains the operation named `part`, else every one whose name contains it. Empty when there is none; explain_absence
/// then says why an operation may be missing.
std::optional<std::string> explain_text(const Gains& gains, const std::string& part);
std::string explain_absence(const Gains& gains, const std::string& part);

}  // namespace whet::tools
