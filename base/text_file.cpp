// SPDX-License-Identifier: Apache-2.0
// Reading small text files.
#include "base/text_file.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <sstream>

namespace whet::base {

std::string read_text(const std::string& path) {
    std::ifstream file(path);
    if (!file) return {};
    std::string text{std::istreambuf_iterator<char>(file), {}};
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
}

std::optional<std::int64_t> to_integer(std::string_view text) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end == text.data()) return std::nullopt;
    return value;
}

int count_list(const std::string& list) {
    int count = 0;
    std::stringstream stream(list);
    for (std::string part; std::getline(stream, part, ',');) {
        const size_t dash = part.find('-');
        const auto first = to_integer(part);
        const auto last =
            dash == std::string::npos ? first : to_integer(std::string_view(part).substr(dash + 1));
        if (first && last && *last >= *first) count += static_cast<int>(*last - *first + 1);
    }
    return std::max(count, 1);
}

}  // namespace whet::base
