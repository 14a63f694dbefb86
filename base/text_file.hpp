// SPDX-License-Identifier: Apache-2.0
// Small text files: the kernel's, and own ones.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace whet::base {

/// The whole text of a file without its final newlines; empty when it cannot be read.
std::string read_text(const std::string& path);

/// Writes a file of this user's own (made with mode 0600, replaced if it is there). False: it cannot
/// be written, is another user's, or is no regular file; links are not followed.
bool write_own_text(const std::string& path, std::string_view text);

/// The whole number at the beginning of a text; empty when there is none.
std::optional<std::int64_t> to_integer(std::string_view text);

/// Counts the processors in a list such as "0-3,8"; at least 1.
int count_list(const std::string& list);

}  // namespace whet::base
