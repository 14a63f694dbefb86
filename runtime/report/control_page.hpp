// SPDX-License-Identifier: Apache-2.0
// This process's slot of the control page that a parent made (WHET_CONTROL).
#pragma once

#include <whet/control.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace whet::runtime {

/// What a process tells its parent; the meaning is that of whet_control_slot.
struct ControlCounters {
    std::uint64_t sites = 0, calls = 0, served_calls = 0;
    std::uint64_t trials = 0, compiles = 0, published = 0, rejected = 0;
    std::uint64_t tuning_cpu_ns = 0, saved_ns = 0;
};

/// A claimed slot. Not thread-safe: one thread at a time publishes and polls. Nothing here blocks.
class ControlPage {
public:
    /// Maps the page and claims a slot. io_error: cannot open or map; unsupported: another version
    /// of Whet made it; out_of_budget: no slot is free.
    static base::Result<std::unique_ptr<ControlPage>> open(const std::string& path);
    ControlPage(const ControlPage&) = delete;
    ControlPage& operator=(const ControlPage&) = delete;
    /// Unmaps; the slot stays claimed, so that the parent can still read it.
    ~ControlPage();

    /// Whether this object belongs to the calling process: false in the child of a fork, which must
    /// open its own.
    bool owned() const noexcept;

    void publish(const ControlCounters& counters, std::string_view activity) noexcept;
    /// Replaces the report; one that does not fit leaves the last one.
    void publish_report(std::string_view json) noexcept;
    /// Says that no further report will come.
    void end() noexcept;

    /// Returns the newest command that was not acknowledged yet, or WHET_CONTROL_NONE: two atomic
    /// loads.
    whet_control_command poll() noexcept;
    /// Tells the parent that the command which poll() returned last has been carried out.
    void acknowledge() noexcept;

private:
    ControlPage(whet_control_header* header, whet_control_slot* slot)
        : header_(header), slot_(slot) {}

    whet_control_header* header_;
    whet_control_slot* slot_;
    std::uint64_t seen_ = 0;
};

}  // namespace whet::runtime
