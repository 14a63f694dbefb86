// SPDX-License-Identifier: Apache-2.0
// One operation on the forge's own data: operands on guarded memory, the expected result, and the
// comparison with it.
#include "runtime/forge/op_context.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/clock.hpp"
#include "base/hash.hpp"
#include "jit/reference/reference.hpp"
#include "runtime/forge/random.hpp"

namespace whet::runtime::forge {
namespace {

using base::Code;
using base::make_error;

constexpr float kFinitePoison =
    -7.7e33f;  ///< poison of the wild set: an element nobody wrote shows as a large value
constexpr int64_t kReverseTasks = 256;  ///< runs of a whole call from the last task, at most
constexpr int64_t kProbeElements =
    16;  ///< reference elements timed before the sample's size is chosen
constexpr size_t kPoisonScratch =
    4u << 20;  ///< scratch up to this size is filled with NaN before each run
constexpr int64_t kDeeperNs =
    5'000'000;  ///< a larger budget than the first one's, by this, has more elements compared
constexpr double kWholeRunNs =
    1e6;  ///< of a longer operation only a part is run, whatever its microkernels
constexpr double kLongRunNs = 20e6;  ///< of a still longer one parts that are finer than tasks
constexpr int kPartPlaces = 3;       ///< ... from its start, its middle and its end
constexpr double kPartNs = 200'000;  ///< what a run of known microkernels takes, at least
constexpr int64_t kParts = 4;        ///< a part's tasks come from so many places
constexpr int64_t kRandomElements =
    512;  ///< compared at random, after every position of every axis was
constexpr size_t kKernelsRemembered = 512;

int64_t offset_of(const whet_view& view, const int64_t* index) {
    int64_t offset = 0;
    for (int d = 0; d < view.rank; ++d) offset += index[d] * view.strides[d];
    return offset;
}

int64_t count_of(const whet_view& view) {
    int64_t count = 1;
    for (int d = 0; d < view.rank; ++d) count *= view.extents[d];
    return count;
}

/// Advances a row-major index; false after the last.
bool advance(const whet_view& view, int64_t* index) {
    for (int d = view.rank - 1; d >= 0; --d) {
        if (++index[d] < view.extents[d]) return true;
        index[d] = 0;
    }
    return false;
}

std::string index_text(const whet_view& view, const int64_t* index) {
    std::string text;
    for (int d = 0; d < view.rank; ++d) text += (d == 0 ? "" : ",") + std::to_string(index[d]);
    return text;
}

/// Where the wild set may hold NaN and infinity: an operand in which they do not reach every
/// result. A convolution's weights stay finite: plans that multiply padding zeros are legal for
/// finite weights only, which the program checks when it packs or calls.
template <typename T>
void place_non_finite(const whet_op& op, void* const* data) {
    constexpr int64_t kRows = 4;
    const whet_view& a = op.operands[WHET_A];
    const whet_view& b = op.operands[WHET_B];
    auto* a_data = static_cast<T*>(data[WHET_A]);
    constexpr T inf = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
    if (op.kind == WHET_MATMUL) {
        const int row = a.rank - 2, column = b.rank - 1;
        if (a.extents[row] >= kRows && a.extents[row + 1] > 0) {
            a_data[(a.extents[row] - 1) * a.strides[row]] = nan;
            a_data[a.extents[row] / 2 * a.strides[row]] = inf;
        }
        if (b.extents[column] >= kRows && b.extents[column - 1] > 0) {
            auto* b_data = static_cast<T*>(data[WHET_B]);
            b_data[(b.extents[column] - 1) * b.strides[column]] = nan;
            b_data[b.extents[column] / 2 * b.strides[column]] = -inf;
        }
        return;
    }
    // The first and the last element of a middle row or image.
    int64_t index[WHET_MAX_RANK] = {};
    if (op.kind == WHET_SOFTMAX) {
        if (a.extents[0] < kRows) return;
        index[0] = a.extents[0] - 1;
        a_data[offset_of(a, index)] = nan;
        index[0] = a.extents[0] / 2;
        a_data[offset_of(a, index)] = -inf;
        return;
    }
    for (int d = 0; d < a.rank; ++d) index[d] = a.extents[d] - 1;
    a_data[offset_of(a, index)] = nan;
    for (int d = 2; d < a.rank; ++d) index[d] = 0;
    a_data[offset_of(a, index)] = inf;
}

}  // namespace

int64_t span_of(const whet_view& view) noexcept {
    int64_t last = 0;
    for (int d = 0; d < view.rank; ++d) {
        if (view.extents[d] == 0) return 0;
        if (view.extents[d] > 1) last += (view.extents[d] - 1) * view.strides[d];
    }
    return last + 1;
}

size_t bytes_of(const whet_op& op, uint32_t operand) noexcept {
    return static_cast<size_t>(span_of(op.operands[operand]) * jit::bytes_of(jit::element_of(op)));
}

base::Result<void> check_operands(const whet_op& op, size_t memory_bytes) {
    double bytes = 0;
    for (uint32_t i = 0; i < op.operand_count; ++i) {
        const whet_view& view = op.operands[i];
        for (int d = 0; d < view.rank; ++d) {
            if (view.extents[d] > 1 && view.strides[d] < 0) {
                return make_error(Code::unsupported,
                                  "operand %u has stride %lld, expected none below 0", i,
                                  static_cast<long long>(view.strides[d]));
            }
        }
        // Two sets; the result also has its expected image.
        bytes += static_cast<double>(bytes_of(op, i)) * (i == WHET_DST ? 4 : 2);
    }
    if (span_of(op.operands[WHET_DST]) == 0)
        return make_error(Code::unsupported, "the result is empty");
    // One site's operands may take more than the budget's default (interface.md), but not any
    // amount.
    constexpr double kMost = 4;
    if (bytes > kMost * static_cast<double>(memory_bytes)) {
        return make_error(Code::out_of_budget,
                          "operands take %.0f MiB, the forge's memory is %zu MiB",
                          bytes / (1 << 20), memory_bytes >> 20);
    }
    return {};
}

base::Result<std::unique_ptr<OpContext>> OpContext::make(const whet_op& op, bool guarded,
                                                         uint64_t seed) {
    std::unique_ptr<OpContext> context(new OpContext(op, guarded));
    for (int s = 0; s < 2; ++s) {
        DataSet& set = context->sets_[s];
        WHET_TRY_VOID(context->is_f64() ? context->fill<double>(set, s == 0, seed)
                                        : context->fill<float>(set, s == 0, seed));
    }
    return context;
}

template <typename T>
base::Result<void> OpContext::fill(DataSet& set, bool exact, uint64_t seed) {
    Random random(base::hash_combine(seed, exact ? 1 : 2));
    for (uint32_t i = 0; i < op_.operand_count; ++i) {
        const auto count = static_cast<size_t>(span_of(op_.operands[i]));
        WHET_TRY(set.operands[i],
                 GuardedBuffer::make(count * sizeof(T), exact ? Edge::end : Edge::start, guarded_));
        set.data[i] = set.operands[i].data();
        memory_bytes_ += count * sizeof(T);
        if (i == WHET_DST) continue;
        if (exact)
            fill_exact(set.operands[i].values<T>(), count, random);
        else
            fill_wild(set.operands[i].values<T>(), count, random, i == WHET_A);
    }
    if (!exact) place_non_finite<T>(op_, set.data);
    // alpha = 0: the sources are not read, so any value must do.
    if (op_.kind == WHET_MATMUL && op_.alpha == 0) {
        for (const int i : {WHET_A, WHET_B}) {
            std::fill_n(set.operands[i].values<T>(), set.operands[i].bytes() / sizeof(T),
                        std::numeric_limits<T>::quiet_NaN());
        }
    }
    for (uint32_t i = 1; i < op_.operand_count; ++i) set.operands[i].protect(true);

    set.poison =
        exact ? bits_of(std::numeric_limits<T>::signaling_NaN()) : bits_of(T{kFinitePoison});
    const size_t count = set.operands[WHET_DST].bytes() / sizeof(T);
    if (op_.kind == WHET_MATMUL && op_.beta != 0) {
        // The result is read: its start image has values where the view lies, poison in the gaps.
        std::vector<T> values(count);
        if (exact)
            fill_exact(values.data(), count, random);
        else
            fill_wild(values.data(), count, random, true);
        fill_result<T>(set);
        set.initial.assign(set.operands[WHET_DST].data(),
                           set.operands[WHET_DST].data() + count * sizeof(T));
        int64_t index[WHET_MAX_RANK] = {};
        do {
            const auto at = static_cast<size_t>(offset_of(op_.operands[WHET_DST], index));
            std::memcpy(set.initial.data() + at * sizeof(T), &values[at], sizeof(T));
        } while (advance(op_.operands[WHET_DST], index));
        memory_bytes_ += count * sizeof(T);
    }
    return {};
}

template <typename T>
void OpContext::fill_result(DataSet& set) {
    using Word = decltype(bits_of(T{}));
    std::fill_n(set.operands[WHET_DST].values<Word>(), result_elements<T>(),
                static_cast<Word>(set.poison));
}

void OpContext::reset_result(DataSet& set) {
    if (!set.initial.empty())
        std::memcpy(set.operands[WHET_DST].data(), set.initial.data(), set.initial.size());
    else if (is_f64())
        fill_result<double>(set);
    else
        fill_result<float>(set);
}

base::Result<std::byte*> OpContext::scratch(size_t bytes) {
    constexpr size_t kUnit =
        64 * 1024;  // grown in steps, so that few candidates need a new mapping
    const size_t rounded = std::max<size_t>((bytes + kUnit - 1) / kUnit * kUnit, kUnit);
    if (scratch_.empty() || scratch_.bytes() < rounded) {
        WHET_TRY(scratch_, GuardedBuffer::make(rounded, Edge::end, guarded_));
    }
    // The end of what the plan may use lies at the guard.
    return scratch_.data() + (scratch_.bytes() - (bytes + 63) / 64 * 64);
}

base::Result<void> OpContext::run(DataSet& set, const Runnable& runnable,
                                  const Selection& selection) {
    const jit::Plan& plan = *runnable.plan;
    jit::Operands operands{set.data, {}};
    for (int i = 0; i < WHET_MAX_OPERANDS; ++i) {
        const jit::PackLayout layout = plan.frozen[i];
        if (layout.id == 0) continue;
        PackedCopy& copy = set.packed[i];
        if (copy.layout != layout.id) {
            const size_t bytes = (layout.bytes + 63) / 64 * 64;
            if (copy.memory.bytes() != bytes) {
                WHET_TRY(copy.memory, GuardedBuffer::make(bytes, Edge::end, guarded_));
            } else {
                copy.memory.protect(false);
            }
            jit::pack_frozen(plan, i, set.data[i], copy.memory.data());
            copy.memory.protect(true);
            copy.layout = layout.id;
        }
        operands.packed[i] = copy.memory.data();
    }
    const size_t shared = (plan.shared_bytes + 63) / 64 * 64, bytes = shared + plan.private_bytes;
    WHET_TRY(std::byte* const memory, scratch(bytes));
    if (bytes <= kPoisonScratch) std::memset(memory, 0xff, bytes);
    reset_result(set);
    const int64_t began = base::thread_cpu_ns();
    double share = 0;
    for (size_t phase = 0; phase < plan.phases.size(); ++phase) {
        const auto run_tasks = [&](int64_t first, int64_t last) {
            jit::run_phase(plan, runnable.table(), static_cast<int>(phase), operands, memory,
                           memory + shared, first, last);
        };
        if (phase + 1 < plan.phases.size()) {
            run_tasks(0, plan.phases[phase].task_count);
            continue;
        }
        for (const auto& [first, last] : selection.pieces) {
            run_tasks(first, last);
            share += jit::work_before(plan, last) - jit::work_before(plan, first);
        }
    }
    for (const jit::PartialPlan& part : selection.parts) {
        jit::run_phase(part.plan, runnable.table(), 0, operands, memory, memory + shared, 0,
                       part.plan.phases.back().task_count);
        share += part.share;
    }
    call_ns_ = static_cast<double>(base::thread_cpu_ns() - began) / std::max(share, 1e-6);
    return {};
}

/// Whole: everything, in order or from the last (with `all`, task by task, as far as that is
/// affordable). Else a few ranges that take about kPartNs, the first and the last task among them.
OpContext::Pieces OpContext::pieces_of(const jit::Plan& plan, bool whole, bool all,
                                       bool reverse) const {
    const int64_t tasks = plan.phases.back().task_count;
    Pieces pieces;
    const double share = std::max(kPartNs / std::max(whole_ns_, 1.0), 1e-4);
    const auto part = static_cast<int64_t>(share * static_cast<double>(tasks) / kParts);
    if (!whole && tasks > kParts * (part + 1)) {
        for (int64_t i = 0; i < kParts; ++i) {
            const int64_t first = (tasks - part - 1) * i / (kParts - 1);
            pieces.emplace_back(first, first + part + 1);
        }
    } else if (!reverse) {
        return {{0, tasks}};
    } else {
        const int64_t count = std::min(tasks, all ? kReverseTasks : kParts);
        for (int64_t i = 0; i < count; ++i)
            pieces.emplace_back(tasks * i / count, tasks * (i + 1) / count);
    }
    if (reverse) std::reverse(pieces.begin(), pieces.end());
    return pieces;
}

/// A long product whose tasks are long themselves is cut finer than tasks.
OpContext::Selection OpContext::select(const jit::Plan& plan, bool whole, bool all,
                                       bool reverse) const {
    Selection selection;
    if (!whole && whole_ns_ > kLongRunNs) {
        for (int i = 0; i < kPartPlaces; ++i) {
            const double position = static_cast<double>(i) / (kPartPlaces - 1);
            auto part = jit::part_of(plan, kWholeRunNs / whole_ns_, position);
            if (!part) break;
            selection.share = std::max(selection.share, part->share);
            selection.parts.push_back(std::move(*part));
        }
        if (!selection.parts.empty()) return selection;
    }
    selection.pieces = pieces_of(plan, whole, all, reverse);
    for (const auto& [from, to] : selection.pieces)
        selection.share += jit::work_before(plan, to) - jit::work_before(plan, from);
    return selection;
}

bool OpContext::known(const Runnable& runnable) const {
    return !runnable.kernel_ids.empty() &&
           std::all_of(runnable.kernel_ids.begin(), runnable.kernel_ids.end(),
                       [&](uint64_t id) { return right_kernels_.contains(id); });
}

void OpContext::remember(const Runnable& runnable) {
    if (right_kernels_.size() > kKernelsRemembered) right_kernels_.clear();
    right_kernels_.insert(runnable.kernel_ids.begin(), runnable.kernel_ids.end());
}

/// share: of the results that were computed; below 1 the others must be untouched.
template <typename T>
base::Result<void> OpContext::compare(const DataSet& set, double share) const {
    using Word = decltype(bits_of(T{}));
    const std::byte* const got = set.operands[WHET_DST].data();
    const size_t count = result_elements<T>();
    const bool partial = share < 1;
    if (!partial && std::memcmp(got, set.expected.data(), count * sizeof(T)) == 0) return {};
    const auto bits = [](const std::byte* values, size_t i) {
        Word word;
        std::memcpy(&word, values + i * sizeof(T), sizeof(word));
        return word;
    };
    constexpr size_t kBlock = 1024;
    size_t written = 0;
    for (size_t first = 0; first < count; first += kBlock) {
        const size_t last = std::min(count, first + kBlock);
        uint32_t right = 0, untouched = 0;
        if (partial) {
            const auto poison = static_cast<Word>(set.poison);
            const std::byte* const start = set.initial.empty() ? nullptr : set.initial.data();
            for (size_t i = first; i < last; ++i) {
                const Word value = bits(got, i);
                const bool equal = value == bits(set.expected.data(), i);
                right += equal;
                untouched += !equal & (value == (start != nullptr ? bits(start, i) : poison));
            }
            written += right;
        }
        if (right + untouched != last - first)
            WHET_TRY_VOID(compare_block<T>(set, first, last, partial));
    }
    // Values of the exact set are finite, so that equal ones have equal bits.
    if (!partial || &set != &sets_[0]) return {};
    const double expected = share * static_cast<double>(count_of(op_.operands[WHET_DST]));
    if (static_cast<double>(written) + 0.5 >= expected) return {};
    return make_error(Code::verify_failed, "%zu results are there, expected %.0f", written,
                      expected);
}

template <typename T>
base::Result<void> OpContext::compare_block(const DataSet& set, size_t first, size_t last,
                                            bool partial) const {
    const T* got = set.operands[WHET_DST].values<T>();
    const auto* expected = reinterpret_cast<const T*>(set.expected.data());
    const auto* initial = reinterpret_cast<const T*>(set.initial.data());
    for (size_t i = first; i < last; ++i) {
        if (same(got[i], expected[i])) continue;
        const uint64_t start = set.initial.empty() ? set.poison : bits_of(initial[i]);
        if (partial && bits_of(got[i]) == start) continue;
        return make_error(Code::verify_failed, "element at offset %zu: got %.*g, expected %.*g", i,
                          std::numeric_limits<T>::max_digits10, static_cast<double>(got[i]),
                          std::numeric_limits<T>::max_digits10, static_cast<double>(expected[i]));
    }
    return {};
}

template <typename T>
base::Result<void> OpContext::check_gaps(const DataSet& set) const {
    const whet_view& view = op_.operands[WHET_DST];
    const size_t count = result_elements<T>();
    if (static_cast<size_t>(count_of(view)) == count) return {};
    std::vector<bool> covered(count);
    int64_t index[WHET_MAX_RANK] = {};
    do covered[static_cast<size_t>(offset_of(view, index))] = true;
    while (advance(view, index));
    const T* got = set.operands[WHET_DST].values<T>();
    for (size_t i = 0; i < count; ++i) {
        if (covered[i] || bits_of(got[i]) == set.poison) continue;
        return make_error(Code::verify_failed, "gap between rows written at offset %zu: %.*g", i,
                          std::numeric_limits<T>::max_digits10, static_cast<double>(got[i]));
    }
    return {};
}

template <typename T>
base::Result<void> OpContext::check_element(DataSet& set, void* const* reference_data,
                                            const int64_t* index, bool tolerance) {
    const whet_view& view = op_.operands[WHET_DST];
    const T got = set.operands[WHET_DST].values<T>()[offset_of(view, index)];
    const T expected =
        static_cast<T>(jit::reference_consistent_element(op_, reference_data, index));
    ++set.checked;
    if (!same(got, expected)) {
        return make_error(Code::verify_failed, "element [%s]: got %.*g, expected %.*g",
                          index_text(view, index).c_str(), std::numeric_limits<T>::max_digits10,
                          static_cast<double>(got), std::numeric_limits<T>::max_digits10,
                          static_cast<double>(expected));
    }
    if (!tolerance || !std::isfinite(got)) return {};
    const jit::ExactElement exact = jit::reference_exact_element(op_, reference_data, index);
    if (!std::isfinite(exact.value) || std::abs(got - exact.value) <= jit::tolerance(op_, exact))
        return {};
    return make_error(Code::verify_failed, "element [%s]: got %.*g, exact %.17g, tolerance %.3g",
                      index_text(view, index).c_str(), std::numeric_limits<T>::max_digits10,
                      static_cast<double>(got), exact.value, jit::tolerance(op_, exact));
}

template <typename T>
base::Result<void> OpContext::accept(DataSet& set, bool exact, int64_t budget_ns) {
    const whet_view& view = op_.operands[WHET_DST];
    // The reference reads the start image where the operation reads its result.
    std::vector<std::byte> start = set.initial;
    void* data[WHET_MAX_OPERANDS];
    std::copy(std::begin(set.data), std::end(set.data), data);
    if (!start.empty()) data[WHET_DST] = start.data();
    WHET_TRY_VOID(check_gaps<T>(set));

    const int64_t began = base::thread_cpu_ns();
    // Seeded by what was checked before, so that a second look sees other elements.
    Random random(base::hash_combine(exact ? 11 : 12, set.checked));
    const bool tolerance = !exact;
    int64_t index[WHET_MAX_RANK];
    const auto draw = [&] {
        for (int d = 0; d < view.rank; ++d) index[d] = random.below(view.extents[d]);
    };
    for (int64_t i = 0; i < kProbeElements; ++i) {
        draw();
        WHET_TRY_VOID(check_element<T>(set, data, index, tolerance));
    }
    const double each_ns = static_cast<double>(base::thread_cpu_ns() - began) / kProbeElements;
    if (each_ns * static_cast<double>(count_of(view)) <= static_cast<double>(budget_ns)) {
        std::fill_n(index, WHET_MAX_RANK, 0);
        do WHET_TRY_VOID(check_element<T>(set, data, index, tolerance));
        while (advance(view, index));
        set.complete = true;
    } else {
        // Corners; then every position of every axis, with random positions of the others; then a
        // random sample.
        for (int corner = 0; corner < 1 << view.rank; ++corner) {
            for (int d = 0; d < view.rank; ++d)
                index[d] = corner >> d & 1 ? view.extents[d] - 1 : 0;
            WHET_TRY_VOID(check_element<T>(set, data, index, tolerance));
        }
        for (int axis = view.rank - 1; axis >= 0; --axis) {
            // The last positions first: remainders lie there. Half the budget at most for this part
            // of it.
            const int64_t until = base::thread_cpu_ns() + budget_ns / (2 * view.rank);
            for (int64_t i = view.extents[axis] - 1; i >= 0 && base::thread_cpu_ns() < until; --i) {
                draw();
                index[axis] = i;
                WHET_TRY_VOID(check_element<T>(set, data, index, tolerance));
            }
        }
        for (int64_t i = 0; i < kRandomElements && base::thread_cpu_ns() - began < budget_ns; ++i) {
            draw();
            WHET_TRY_VOID(check_element<T>(set, data, index, tolerance));
        }
    }
    set.spent_ns += budget_ns;
    if (!set.expected.empty()) return {};
    const std::byte* const got = set.operands[WHET_DST].data();
    set.expected.assign(got, got + set.operands[WHET_DST].bytes());
    memory_bytes_ += set.expected.size();
    return {};
}

/// What a run left: accepted by the reference, or compared with what was accepted before.
template <typename T>
base::Result<void> OpContext::judge(DataSet& set, bool exact, bool first, double share,
                                    int64_t reference_budget_ns) {
    const bool sliced = share < 1;
    WHET_TRY_VOID(first ? accept<T>(set, exact, reference_budget_ns / 2) : compare<T>(set, share));
    const int64_t left_ns = reference_budget_ns / 2 - set.spent_ns;
    if (sliced || set.complete || left_ns <= kDeeperNs) return {};
    return accept<T>(set, exact, left_ns);
}

base::Result<void> OpContext::check_canaries() {
    for (const DataSet& set : sets_) {
        for (uint32_t i = 0; i < op_.operand_count; ++i) {
            if (set.operands[i].canary_intact()) continue;
            damaged_ = true;
            return make_error(Code::verify_failed, "bytes around operand %u were written", i);
        }
    }
    if (scratch_.empty() || scratch_.canary_intact()) return {};
    damaged_ = true;
    return make_error(Code::verify_failed, "bytes around the scratch were written");
}

TrialResult OpContext::verify(const Runnable& runnable, int64_t reference_budget_ns, bool whole) {
    TrialResult result;
    const bool part = !whole && (whole_ns_ > kWholeRunNs || known(runnable));
    bool ran_whole = true;
    for (int s = 0; s < 2; ++s) {
        DataSet& set = sets_[s];
        const bool exact = s == 0, first = set.expected.empty();
        const Selection selection = select(*runnable.plan, !part || first, whole, !exact);
        const double share = selection.share;
        const bool sliced = share < 1 - 1e-9;
        auto checked = run(set, runnable, selection);
        if (!checked) {
            result.reason = checked.error().message;
            return result;
        }
        whole_ns_ = whole_ns_ == 0 ? call_ns_ : std::min(whole_ns_, call_ns_);
        checked = is_f64()
                      ? judge<double>(set, exact, first, sliced ? share : 1, reference_budget_ns)
                      : judge<float>(set, exact, first, sliced ? share : 1, reference_budget_ns);
        if (checked) checked = check_canaries();
        ran_whole = ran_whole && !sliced;
        result.checked_elements += set.checked;
        if (checked) continue;
        result.verdict = Verdict::wrong;
        result.reason = std::string(exact ? "exact" : "wild") + " data: " + checked.error().message;
        return result;
    }
    if (ran_whole) remember(runnable);
    result.verdict = Verdict::right;
    return result;
}

}  // namespace whet::runtime::forge
