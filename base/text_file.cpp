// SPDX-License-Identifier: Apache-2.0
// Reading and writing small text files.
#include "base/text_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <iterator>
#include <sstream>

#include "base/threads.hpp"

namespace whet::base {

std::string read_text(const std::string& path) {
    std::ifstream file(path);
    if (!file) return {};
    std::string text{std::istreambuf_iterator<char>(file), {}};
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
}

bool write_own_text(const std::string& path, std::string_view text) {
    const UniqueFd file(
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
    struct stat status{};
    if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
        status.st_uid != ::geteuid() || ::ftruncate(file.get(), 0) != 0)
        return false;
    while (!text.empty()) {
        const ssize_t written = ::write(file.get(), text.data(), text.size());
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        text.remove_prefix(static_cast<size_t>(written));
    }
    return true;
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
