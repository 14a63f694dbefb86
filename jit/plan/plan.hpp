// SPDX-License-Identifier: Apache-2.0
// From an operation and a schedule to a plan: phases of tasks over a nest that is data, and the
// driver that runs them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <whet/whet.h>

#include "base/status.hpp"
#include "jit/microkernel.hpp"
#include "jit/schedule/schedule.hpp"

namespace whet::jit {

struct Nest;  // jit/plan/nest.hpp

/// How a frozen operand must be packed for a plan. Equal ids mean equal bytes for equal sources.
struct PackLayout {
    uint64_t id = 0;   ///< 0: this operand is not packed ahead
    size_t bytes = 0;  ///< size of the packed copy
};

/// One phase: tasks that may run in any order and on any thread; a barrier follows. Phases run in
/// order.
struct Phase {
    int64_t task_count = 1;
};

/// An immutable, runnable program but for its microkernels' addresses. Lowering costs microseconds,
/// no LLVM.
struct Plan {
    whet_op op{};
    Schedule schedule;
    Isa isa = Isa::portable;
    Element element = Element::f32;
    std::vector<MicrokernelSpec> kernels;  ///< what a binding must supply, by index
    std::vector<Phase> phases;
    PackLayout frozen[WHET_MAX_OPERANDS];  ///< per operand
    size_t shared_bytes = 0;   ///< scratch of one call, shared by its tasks; 64-byte aligned
    size_t private_bytes = 0;  ///< scratch of one executing thread; 64-byte aligned
    std::shared_ptr<const Nest> nest;
};

/// Lowers a schedule. unsupported: the structure does not fit the operation; invalid_argument: an
/// illegal schedule (the reason names the parameter, got and expected). A returned plan writes each
/// output element exactly once per segment and reads only the operands' elements (and its own
/// packed copies): see docs/proof.md.
base::Result<Plan> lower(const whet_op& op, const Schedule& schedule, Isa isa);

/// The legal check alone (what lower would say), without building.
base::Result<void> check_schedule(const whet_op& op, const Schedule& schedule, Isa isa);

/// The operands of one call: data as in whet_site_call, and the packed copies of frozen operands
/// (else null).
struct Operands {
    void* const* data;
    const void* packed[WHET_MAX_OPERANDS] = {};
};

/// Runs tasks [first, last) of one phase. functions[i] implements plan.kernels[i]; for
/// Isa::portable pass null. Thread-safe for disjoint tasks with separate private scratch. No
/// allocation, no lock.
void run_phase(const Plan& plan, const MicrokernelFunction* functions, int phase,
               const Operands& operands, std::byte* shared_scratch, std::byte* private_scratch,
               int64_t first, int64_t last) noexcept;

/// Runs all phases on the calling thread. scratch: shared_bytes + private_bytes, 64-byte aligned.
void run_plan(const Plan& plan, const MicrokernelFunction* functions, const Operands& operands,
              std::byte* scratch) noexcept;

/// Fills `packed` (plan.frozen[operand].bytes, 64-byte aligned) from the operand's memory.
void pack_frozen(const Plan& plan, int operand, const void* source, void* packed) noexcept;

/// The plan as text for `whet inspect`: loops, packs, offsets, calls.
std::string print_plan(const Plan& plan);

}  // namespace whet::jit
