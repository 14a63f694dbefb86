// SPDX-License-Identifier: Apache-2.0
// The small text files of the kernel.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace whet::base {

/// The whole text of a file without its final newlines; empty when it cannot be read.
std::string read_text(const std::string& path);

/// The whole number at the beginning of a text; empty when there is none.
std::optional<std::int64_t> to_integer(std::string_view text);

/// Counts the processors in a list such as "0-3,8"; at least 1.
int count_list(const std::string& list);

}  // namespace whet::base
