// SPDX-License-Identifier: Apache-2.0
// The schedules of one operation as a SearchSpace: sketches from the rules, knobs from the machine,
// costs in closed form.
#pragma once

#include <memory>
#include <vector>

#include <whet/whet.h>

#include "base/search_space.hpp"
#include "jit/microkernel.hpp"
#include "jit/schedule/schedule.hpp"

namespace whet::jit {

/// What the analytical model knows of the machine; from base/host, or fixed in tests.
struct MachineModel {
    Isa isa = Isa::avx2;
    double cycles_per_ns = 3.0;
    double l1_bytes = 48 * 1024, l2_bytes = 1 << 20, l3_bytes = 16 << 20;
    double l2_bytes_per_cycle = 40, l3_bytes_per_cycle = 10, memory_bytes_per_cycle = 4;
};

/// One structure with its packing choices, and which rules made it (for `whet inspect`).
struct Sketch {
    Schedule base;      ///< structure, scalar, vector set; parameters at their defaults
    const char* rules;  ///< e.g. "multi-level tiling, pack b"
};

/// Derives the legal sketches of an operation, best guess first. Empty: unsupported.
std::vector<Sketch> sketches_of(const whet_op& op, Isa isa);

/// SearchSpace over schedules. Also translates both ways.
class ScheduleSpace : public base::SearchSpace {
public:
    virtual Schedule schedule_at(int sketch, const base::Point& point) const = 0;
    /// The point that is nearest to a schedule (its sketch in *sketch), or an empty point when it
    /// is not in the space.
    virtual base::Point point_of(const Schedule& schedule, int* sketch) const = 0;
    /// A legal start of a sketch.
    virtual base::Point default_point(int sketch) const = 0;
    virtual const whet_op& op() const = 0;
    virtual Isa isa() const = 0;
};

std::unique_ptr<ScheduleSpace> make_space(const whet_op& op, const MachineModel& machine);

/// The analytical draft: the `count` schedules with the lowest estimates over a deterministic
/// enumeration of thousands, best first, distinct. usable: optional filter on kernels (zero-trial:
/// only those that exist without a compiler).
std::vector<Schedule> analytical_draft(const ScheduleSpace& space, size_t count,
                                       bool (*usable)(const MicrokernelSpec&, void*),
                                       void* context);

/// Lower bound of the operation's time on a machine: max(flops / peak, compulsory bytes /
/// bandwidth), nanoseconds.
double bound_ns(const whet_op& op, double peak_gflops, double stream_gbs) noexcept;
double flops_of(const whet_op& op) noexcept;
double compulsory_bytes_of(const whet_op& op) noexcept;

}  // namespace whet::jit
