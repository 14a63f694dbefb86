// SPDX-License-Identifier: Apache-2.0
// The report as one page: no script, no outside file, well-formed as XML, readable in the light and
// in the dark.
#pragma once

#include <string>

#include "tools/whet/report/gains.hpp"

namespace whet::tools {

/// Draws gains, cost and refusals. Every figure also stands in a <data value="..."> with all of its
/// digits; rows beyond kMaxPageRows are summed up in a sentence.
std::string gains_html(const Gains& gains);

inline constexpr std::size_t kMaxPageRows = 1000;  ///< of the table: about 400 KB

}  // namespace whet::tools
