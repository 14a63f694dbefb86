// SPDX-License-Identifier: Apache-2.0
// One operation on the forge's own data: operands on guarded memory, the expected result, and the
// comparison with it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <whet/whet.h>

#include "base/status.hpp"
#include "jit/op/computation.hpp"
#include "jit/plan/plan.hpp"
#include "jit/plan/slice.hpp"
#include "runtime/forge/executor.hpp"
#include "runtime/forge/guarded_buffer.hpp"

namespace whet::runtime::forge {

/// A lowered candidate with the addresses of its microkernels.
struct Runnable {
    std::shared_ptr<const jit::Plan> plan;
    std::vector<jit::MicrokernelFunction> functions;  ///< empty: portable
    std::vector<uint64_t> kernel_ids;                 ///< of `functions`
    const jit::MicrokernelFunction* table() const {
        return functions.empty() ? nullptr : functions.data();
    }
};

/// Data and expected values of one operation, in two sets (design, section 10):
///   exact   small integers, operands end at an unmapped page, the result poisoned with NaN, tasks
///   in order; wild    random, cancelling, subnormal, -0, infinite and NaN values, operands begin
///   at an unmapped page, the result
///           poisoned with a finite value, tasks in reverse order.
/// The first right candidate gives the whole expected result, after its elements were compared with
/// the reference: all of them where the budget allows, else every row and every column with a
/// sample of the other, corners and a random sample. Every later candidate must give the same
/// bytes, gaps between rows included. Sources are read-only all the while.
class OpContext {
public:
    static base::Result<std::unique_ptr<OpContext>> make(const whet_op& op, bool guarded,
                                                         uint64_t seed);

    /// Runs and checks a candidate. Returns right or wrong (with a reason); may fault when guarded.
    /// Unless `whole`, a part of the tasks (first, last, some between) is run where that says as
    /// much: every microkernel has passed a whole run of another plan here, or the operation is
    /// long and its expected values are known. Whole runs take the tasks of the second set one by
    /// one from the last; others in a few pieces.
    TrialResult verify(const Runnable& runnable, int64_t reference_budget_ns, bool whole);
    /// True when a candidate wrote where it must not: the context must not be used again.
    bool damaged() const { return damaged_; }
    /// Operands for timing: the exact set's; `packed` is left null. Call reset_result() to begin
    /// from its start value.
    jit::Operands timing_operands() { return jit::Operands{sets_[0].data, {}}; }
    /// Scratch of at least `bytes`, 64-byte aligned; contents undefined.
    base::Result<std::byte*> scratch(size_t bytes);

    /// CPU time of one call of the last verified candidate, roughly: extrapolated from its tasks.
    double call_ns() const { return call_ns_; }
    const whet_op& op() const { return op_; }
    size_t memory_bytes() const { return memory_bytes_; }
    uint64_t last_use = 0;  ///< for the owner's eviction

private:
    struct PackedCopy {
        uint64_t layout = 0;
        GuardedBuffer memory;
    };
    struct DataSet {
        GuardedBuffer operands[WHET_MAX_OPERANDS];
        void* data[WHET_MAX_OPERANDS] = {};
        std::vector<std::byte> initial;   ///< start image of the result; empty: all poison
        uint64_t poison = 0;              ///< the bits of one element
        std::vector<std::byte> expected;  ///< empty until a candidate was accepted
        PackedCopy packed[WHET_MAX_OPERANDS];
        uint64_t checked = 0;   ///< elements compared with the reference
        int64_t spent_ns = 0;   ///< of the budgets for comparing
        bool complete = false;  ///< every element was
    };

    OpContext(const whet_op& op, bool guarded) : op_(op), guarded_(guarded) {}
    // T: float or double, the operation's type; those without decide it once.
    template <typename T>
    base::Result<void> fill(DataSet& set, bool exact, uint64_t seed);
    template <typename T>
    void fill_result(DataSet& set);
    void reset_result(DataSet& set);
    /// Ranges of tasks in the order in which a verification runs them.
    using Pieces = std::vector<std::pair<int64_t, int64_t>>;
    Pieces pieces_of(const jit::Plan& plan, bool whole, bool all, bool reverse) const;
    bool known(const Runnable& runnable) const;
    void remember(const Runnable& runnable);
    /// What one verification runs: ranges of tasks of the plan, or parts of its nest.
    struct Selection {
        Pieces pieces;
        std::vector<jit::PartialPlan> parts;
        double share = 0;  ///< of the results; parts may overlap, so theirs is counted low
    };
    Selection select(const jit::Plan& plan, bool whole, bool all, bool reverse) const;
    base::Result<void> run(DataSet& set, const Runnable& runnable, const Selection& selection);
    template <typename T>
    base::Result<void> compare(const DataSet& set, double share) const;
    template <typename T>
    base::Result<void> compare_block(const DataSet& set, size_t first, size_t last,
                                     bool partial) const;
    base::Result<void> check_canaries();
    template <typename T>
    base::Result<void> accept(DataSet& set, bool exact, int64_t budget_ns);
    template <typename T>
    base::Result<void> check_gaps(const DataSet& set) const;
    template <typename T>
    base::Result<void> check_element(DataSet& set, void* const* reference_data,
                                     const int64_t* index, bool tolerance);
    template <typename T>
    base::Result<void> judge(DataSet& set, bool exact, bool first, double share,
                             int64_t reference_budget_ns);
    bool is_f64() const { return jit::element_of(op_) == jit::Element::f64; }
    template <typename T>
    size_t result_elements() const {
        return sets_[0].operands[WHET_DST].bytes() / sizeof(T);
    }

    whet_op op_;
    bool guarded_;
    DataSet sets_[2];
    GuardedBuffer scratch_;
    size_t memory_bytes_ = 0;
    double whole_ns_ = 0;  ///< CPU time of one call, the shortest seen
    double call_ns_ = 0;
    std::unordered_set<uint64_t> right_kernels_;  ///< microkernels that passed a whole run
    bool damaged_ = false;
};

/// Elements between the first and one past the last that a view touches; 0 when it is empty.
int64_t span_of(const whet_view& view) noexcept;
/// The same of an operand, in bytes.
size_t bytes_of(const whet_op& op, uint32_t operand) noexcept;

}  // namespace whet::runtime::forge
