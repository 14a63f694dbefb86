// SPDX-License-Identifier: Apache-2.0
// The mark of a process that reaps orphans, and the walk up the ancestors that looks for it.
#include "runtime/forge/orphans.hpp"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <string>

namespace whet::runtime::forge {
namespace {

constexpr const char* kMark = "whet-reaps-orphans";  // name of the mapped memory file
constexpr size_t kMarkBytes = 4096;
constexpr int kMostAncestors = 64;

std::atomic<bool> parent_reaps_orphans{false};  ///< a forked child has its parent's value
std::atomic<pid_t> marked_process{0};           ///< likewise: then the child is not marked

/// The mapping is not inherited by a fork: the child reaps nothing.
void mark_this_process() noexcept {
    const int file = ::memfd_create(kMark, MFD_CLOEXEC);
    if (file < 0) return;
    if (::ftruncate(file, kMarkBytes) == 0) {
        void* const mark = ::mmap(nullptr, kMarkBytes, PROT_READ, MAP_SHARED, file, 0);
        if (mark != MAP_FAILED) ::madvise(mark, kMarkBytes, MADV_DONTFORK);
    }
    ::close(file);
}

/// What is not ours to read is not our program.
bool maps_hold(pid_t process, const char* text) {
    std::ifstream maps("/proc/" + std::to_string(process) + "/maps");
    for (std::string line; std::getline(maps, line);) {
        if (line.find(text) != std::string::npos) return true;
    }
    return false;
}

pid_t parent_of(pid_t process) {
    std::ifstream file("/proc/" + std::to_string(process) + "/stat");
    std::string text;
    std::getline(file, text);
    const size_t name_end = text.rfind(')');  // "1234 (any name) S 1233 ..."
    return name_end == std::string::npos || name_end + 4 > text.size()
               ? 0
               : static_cast<pid_t>(std::strtol(text.c_str() + name_end + 4, nullptr, 10));
}

bool an_ancestor_is_marked() {
    pid_t process = ::getppid();
    for (int depth = 0; process > 0 && depth < kMostAncestors; ++depth) {
        if (maps_hold(process, kMark)) return true;
        process = parent_of(process);
    }
    return false;
}

}  // namespace

bool host_reaps_orphans() noexcept {
    int subreaper = 0;
    return ::getpid() == 1 || (::prctl(PR_GET_CHILD_SUBREAPER, &subreaper) == 0 && subreaper != 0);
}

void note_reaping() noexcept {
    if (!host_reaps_orphans()) return;
    parent_reaps_orphans.store(true, std::memory_order_relaxed);
    if (marked_process.exchange(::getpid()) != ::getpid()) mark_this_process();
}

bool program_would_see_helper() {
    return host_reaps_orphans() || parent_reaps_orphans.load(std::memory_order_relaxed) ||
           maps_hold(1, "/libwhet") || an_ancestor_is_marked();
}

}  // namespace whet::runtime::forge
