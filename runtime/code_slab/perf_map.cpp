// SPDX-License-Identifier: Apache-2.0
// Writing the perf map.
#include "runtime/code_slab/perf_map.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "base/log.hpp"

namespace whet::runtime {

std::string PerfMap::path() { return "/tmp/perf-" + std::to_string(::getpid()) + ".map"; }

void PerfMap::record(const void* address, size_t bytes, std::string_view name) noexcept {
    if (failed_) return;
    if (descriptor_ < 0 && !open()) {
        failed_ = true;
        base::log_event(base::Level::warning, "tuner", "no perf map",
                        {{"path", path()}, {"why", std::strerror(errno)}});
        return;
    }
    char head[48];
    std::snprintf(head, sizeof head, "%llx %zx ",
                  static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(address)), bytes);
    write(head + std::string(name) + "\n");
}

bool PerfMap::open() {
    // /tmp is everybody's: neither a link nor a file that somebody put there may be written.
    const int file =
        ::open(path().c_str(), O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    struct stat status {};
    if (file < 0) return false;
    if (::fstat(file, &status) != 0) {
        ::close(file);
        return false;
    }
    descriptor_ = file;
    if (inherited_ >= 0) copy_inherited();
    device_ = status.st_dev;
    inode_ = status.st_ino;
    return true;
}

void PerfMap::copy_inherited() {
    const int from = inherited_;
    inherited_ = -1;
    if (!is_map(from)) return;
    char part[4096];
    off_t at = 0;
    for (ssize_t got; (got = ::pread(from, part, sizeof part, at)) > 0; at += got) {
        if (::write(descriptor_, part, static_cast<size_t>(got)) != got) break;
    }
    ::close(from);
}

bool PerfMap::is_map(int descriptor) const {
    struct stat status {};
    return ::fstat(descriptor, &status) == 0 && status.st_dev == device_ && status.st_ino == inode_;
}

void PerfMap::write(std::string_view text) {
    // One write a line: with O_APPEND, a fork in between copies whole lines.
    if (!is_map(descriptor_) ||
        ::write(descriptor_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
        failed_ = true;
}

void PerfMap::after_fork_in_child() noexcept {
    if (descriptor_ >= 0) inherited_ = descriptor_;
    descriptor_ = -1;
}

std::string perf_name(std::string_view operation, std::string_view kernel) {
    std::string name = "whet:";
    for (const char c : operation) {
        if (c == '=') continue;
        const bool kept = std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '+';
        name += kept ? c : '_';
    }
    if (!kernel.empty()) name += ":" + std::string(kernel);
    return name;
}

}  // namespace whet::runtime
