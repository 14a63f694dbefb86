// SPDX-License-Identifier: Apache-2.0
// The control page as a watched process sees it.
#include "runtime/report/control_page.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/threads.hpp"

namespace whet::runtime {
namespace {

constexpr size_t kFileBytes =
    WHET_CONTROL_HEADER_BYTES + size_t{WHET_CONTROL_SLOTS} * WHET_CONTROL_SLOT_BYTES;

template <typename T>
void store(T& target, T value) {
    __atomic_store_n(&target, value, __ATOMIC_RELEASE);
}

template <typename T>
T load(const T& source) {
    return __atomic_load_n(&source, __ATOMIC_ACQUIRE);
}

void* map(int descriptor, size_t offset, size_t bytes) {
    void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor,
                         static_cast<off_t>(offset));
    return address == MAP_FAILED ? nullptr : address;
}

/// Takes the first slot whose pid is 0, or this process's own from before an exec.
whet_control_slot* claim(int descriptor) {
    const auto self = static_cast<std::int32_t>(getpid());
    for (size_t i = 0; i < WHET_CONTROL_SLOTS; ++i) {
        const size_t offset = WHET_CONTROL_HEADER_BYTES + i * WHET_CONTROL_SLOT_BYTES;
        auto* slot =
            static_cast<whet_control_slot*>(map(descriptor, offset, WHET_CONTROL_SLOT_BYTES));
        if (!slot) return nullptr;
        std::int32_t expected = 0;
        const bool taken = __atomic_compare_exchange_n(&slot->pid, &expected, self, false,
                                                       __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
        if (taken || expected == self) return slot;
        munmap(slot, WHET_CONTROL_SLOT_BYTES);
    }
    return nullptr;
}

}  // namespace

base::Result<std::unique_ptr<ControlPage>> ControlPage::open(const std::string& path) {
    const base::UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    struct stat status{};
    if (!file || fstat(file.get(), &status) != 0) {
        return base::make_error(base::Code::io_error, "control page %s: %s", path.c_str(),
                                std::strerror(errno));
    }
    if (status.st_uid != geteuid() || static_cast<size_t>(status.st_size) != kFileBytes) {
        return base::make_error(base::Code::unsupported, "control page %s is not ours",
                                path.c_str());
    }
    auto* header = static_cast<whet_control_header*>(map(file.get(), 0, WHET_CONTROL_HEADER_BYTES));
    if (!header) {
        return base::make_error(base::Code::io_error, "control page %s: %s", path.c_str(),
                                std::strerror(errno));
    }
    if (header->magic != WHET_CONTROL_MAGIC || header->version != WHET_CONTROL_VERSION) {
        munmap(header, WHET_CONTROL_HEADER_BYTES);
        return base::make_error(base::Code::unsupported, "control page %s is of another version",
                                path.c_str());
    }
    whet_control_slot* slot = claim(file.get());
    if (!slot) {
        munmap(header, WHET_CONTROL_HEADER_BYTES);
        return base::make_error(base::Code::out_of_budget, "control page %s has no free slot",
                                path.c_str());
    }
    store(slot->ended, 0u);
    return std::unique_ptr<ControlPage>(new ControlPage(header, slot));
}

ControlPage::~ControlPage() {
    munmap(slot_, WHET_CONTROL_SLOT_BYTES);
    munmap(header_, WHET_CONTROL_HEADER_BYTES);
}

bool ControlPage::owned() const noexcept {
    return load(slot_->pid) == static_cast<std::int32_t>(getpid());
}

void ControlPage::publish(const ControlCounters& counters, std::string_view activity) noexcept {
    store(slot_->sites, counters.sites);
    store(slot_->calls, counters.calls);
    store(slot_->served_calls, counters.served_calls);
    store(slot_->trials, counters.trials);
    store(slot_->compiles, counters.compiles);
    store(slot_->published, counters.published);
    store(slot_->rejected, counters.rejected);
    store(slot_->tuning_cpu_ns, counters.tuning_cpu_ns);
    store(slot_->saved_ns, counters.saved_ns);
    const std::uint64_t number = slot_->activity_number + 1;
    char* const place = slot_->activity[number % 2];
    const size_t kept = std::min(activity.size(), size_t{WHET_CONTROL_ACTIVITY_BYTES} - 1);
    std::memcpy(place, activity.data(), kept);
    place[kept] = '\0';
    store(slot_->activity_number, number);
}

void ControlPage::publish_report(std::string_view json) noexcept {
    if (json.size() > WHET_CONTROL_TEXT_BYTES) return;
    const std::uint64_t number = slot_->report_number + 1;
    std::memcpy(slot_->reports + number % 2 * WHET_CONTROL_TEXT_BYTES, json.data(), json.size());
    slot_->report_bytes[number % 2] = json.size();
    store(slot_->report_number, number);
}

void ControlPage::end() noexcept { store(slot_->ended, 1u); }

whet_control_command ControlPage::poll() noexcept {
    const std::uint64_t word = std::max(load(header_->command), load(slot_->command));
    if (word <= load(slot_->acknowledged)) return WHET_CONTROL_NONE;
    seen_ = word;
    return static_cast<whet_control_command>(word & 0xff);
}

void ControlPage::acknowledge() noexcept { store(slot_->acknowledged, seen_); }

}  // namespace whet::runtime
