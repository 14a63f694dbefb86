// SPDX-License-Identifier: Apache-2.0
// The parent's side of the control page.
#include "tools/whet/run/control_host.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>

namespace whet::tools {
namespace {

constexpr size_t kFileBytes =
    WHET_CONTROL_HEADER_BYTES + size_t{WHET_CONTROL_SLOTS} * WHET_CONTROL_SLOT_BYTES;

template <typename T>
T load(const T& source) {
    return __atomic_load_n(&source, __ATOMIC_ACQUIRE);
}

template <typename T>
void store(T& target, T value) {
    __atomic_store_n(&target, value, __ATOMIC_RELEASE);
}

/// Copies a text by `copy(place)`; once more when the writer has begun to reuse the place
/// meanwhile.
template <typename Copy>
void copy_newest(const std::uint64_t& number, Copy copy) {
    constexpr int kTries = 100;  // a writer comes a few times a second
    for (int i = 0; i < kTries; ++i) {
        const std::uint64_t before = load(number);
        copy(static_cast<size_t>(before % 2));
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        if (load(number) == before) return;
    }
}

void copy_texts(const whet_control_slot& slot, bool with_report, ProcessView& view) {
    copy_newest(slot.activity_number, [&](size_t place) {
        const char* const text = slot.activity[place];
        view.activity.assign(text, strnlen(text, WHET_CONTROL_ACTIVITY_BYTES));
    });
    if (!with_report) return;
    copy_newest(slot.report_number, [&](size_t place) {
        const size_t bytes = std::min<size_t>(slot.report_bytes[place], WHET_CONTROL_TEXT_BYTES);
        view.report.assign(slot.reports + place * WHET_CONTROL_TEXT_BYTES, bytes);
    });
}

bool is_alive(std::int32_t pid) {
    // A zombie still takes signals; its state letter tells.
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const size_t bracket = text.rfind(')');
    return bracket != std::string::npos && bracket + 2 < text.size() && text[bracket + 2] != 'Z' &&
           text[bracket + 2] != 'X';
}

}  // namespace

ControlHost::~ControlHost() {
    if (mapping_) munmap(mapping_, kFileBytes);
    if (descriptor_ >= 0) close(descriptor_);
}

whet_control_slot* ControlHost::slot(int index) const {
    auto* bytes = static_cast<char*>(mapping_) + WHET_CONTROL_HEADER_BYTES;
    return reinterpret_cast<whet_control_slot*>(bytes + static_cast<size_t>(index) *
                                                            WHET_CONTROL_SLOT_BYTES);
}

std::string ControlHost::map(int descriptor) {
    mapping_ = mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (mapping_ != MAP_FAILED) return {};
    mapping_ = nullptr;
    return std::string("cannot map the control page: ") + std::strerror(errno);
}

std::string ControlHost::create() {
    descriptor_ = memfd_create("whet-control", MFD_CLOEXEC);
    if (descriptor_ < 0 || ftruncate(descriptor_, kFileBytes) != 0) {
        return std::string("cannot make the control page: ") + std::strerror(errno);
    }
    if (std::string failure = map(descriptor_); !failure.empty()) return failure;
    header()->version = WHET_CONTROL_VERSION;
    header()->slot_count = WHET_CONTROL_SLOTS;
    store(header()->magic, std::uint64_t{WHET_CONTROL_MAGIC});
    path_ = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(descriptor_);
    return {};
}

std::string ControlHost::attach(std::int32_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/environ");
    if (!file) return "cannot read the environment of process " + std::to_string(pid);
    for (std::string entry; std::getline(file, entry, '\0');) {
        if (entry.starts_with("WHET_CONTROL=")) path_ = entry.substr(13);
    }
    if (path_.empty()) return "process " + std::to_string(pid) + " was not started by whet run";
    descriptor_ = open(path_.c_str(), O_RDWR | O_CLOEXEC);
    struct stat status{};
    if (descriptor_ < 0 || fstat(descriptor_, &status) != 0) {
        return "cannot open control page " + path_ + ": " + std::strerror(errno);
    }
    if (static_cast<size_t>(status.st_size) != kFileBytes) return path_ + " is not a control page";
    if (std::string failure = map(descriptor_); !failure.empty()) return failure;
    const bool fits =
        header()->magic == WHET_CONTROL_MAGIC && header()->version == WHET_CONTROL_VERSION;
    return fits ? "" : "control page " + path_ + " is of another version";
}

std::vector<ProcessView> ControlHost::read(bool with_reports) const {
    std::vector<ProcessView> views;
    for (int i = 0; mapping_ && i < WHET_CONTROL_SLOTS; ++i) {
        const whet_control_slot& source = *slot(i);
        ProcessView view;
        view.pid = load(source.pid);
        if (view.pid == 0) break;  // slots are claimed from the front and never given back
        view.ended = load(source.ended) != 0;
        view.acknowledged = load(source.acknowledged);
        view.sites = load(source.sites);
        view.calls = load(source.calls);
        view.served_calls = load(source.served_calls);
        view.trials = load(source.trials);
        view.compiles = load(source.compiles);
        view.published = load(source.published);
        view.rejected = load(source.rejected);
        view.tuning_cpu_ns = load(source.tuning_cpu_ns);
        view.saved_ns = load(source.saved_ns);
        copy_texts(source, with_reports, view);
        views.push_back(std::move(view));
    }
    return views;
}

std::uint64_t ControlHost::command_all(whet_control_command command) {
    const std::uint64_t sequence = __atomic_add_fetch(&header()->sequence, 1, __ATOMIC_ACQ_REL);
    store(header()->command, WHET_CONTROL_WORD(sequence, command));
    return WHET_CONTROL_WORD(sequence, command);
}

std::optional<std::uint64_t> ControlHost::command_one(std::int32_t pid,
                                                      whet_control_command command) {
    for (int i = 0; i < WHET_CONTROL_SLOTS && load(slot(i)->pid) != 0; ++i) {
        if (load(slot(i)->pid) != pid) continue;
        const std::uint64_t sequence = __atomic_add_fetch(&header()->sequence, 1, __ATOMIC_ACQ_REL);
        store(slot(i)->command, WHET_CONTROL_WORD(sequence, command));
        return WHET_CONTROL_WORD(sequence, command);
    }
    return std::nullopt;
}

bool ControlHost::wait_acknowledged(std::uint64_t word, double seconds) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    for (;;) {
        bool waiting = false;
        for (int i = 0; i < WHET_CONTROL_SLOTS && load(slot(i)->pid) != 0; ++i) {
            const whet_control_slot& one = *slot(i);
            const bool meant = load(header()->command) == word || load(one.command) == word;
            waiting |= meant && load(one.acknowledged) < word && !load(one.ended) &&
                       is_alive(load(one.pid));
        }
        if (!waiting) return true;
        if (std::chrono::steady_clock::now() >= deadline) return false;
        const timespec pause{0, 1'000'000};
        nanosleep(&pause, nullptr);
    }
}

}  // namespace whet::tools
