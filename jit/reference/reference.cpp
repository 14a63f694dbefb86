// SPDX-License-Identifier: Apache-2.0
// Evaluates a computation element by element: the same text for every operator, as slow as it is
// plain.
#include "jit/reference/reference.hpp"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>

#include "jit/op/computation.hpp"
#include "jit/portable.hpp"

namespace whet::jit {

namespace {

constexpr int kMaxAxes = 10;  // batch, group, co, three positions, three taps, ci

/// A computation with the operands it is evaluated on.
struct Evaluation {
    const whet_op& op;
    const Computation& computation;
    void* const* data;
};

/// Offset of a read at axis values; false where the term is skipped.
bool offset_of(const Evaluation& e, const Read& read, const int64_t* axes, int64_t* offset) {
    const whet_view& view = e.op.operands[read.operand];
    *offset = 0;
    for (size_t d = 0; d < read.dimensions.size(); ++d) {
        const AffineIndex& index = read.dimensions[d];
        int64_t value = index.offset;
        for (size_t a = 0; a < index.coefficients.size(); ++a)
            value += index.coefficients[a] * axes[a];
        if (value % index.divisor != 0) return false;
        value /= index.divisor;
        if (value < 0 || value >= view.extents[d]) return false;
        if (view.extents[d] > 1) *offset += value * view.strides[d];
    }
    return true;
}

int64_t element_offset(const whet_view& view, const int64_t* index) {
    int64_t offset = 0;
    for (int d = 0; d < view.rank; ++d)
        if (view.extents[d] > 1) offset += index[d] * view.strides[d];
    return offset;
}

/// Sets the spatial axes from an index of dst (a convolution's channel is group and co).
void set_spatial(const Computation& computation, const int64_t* index, int64_t* axes) {
    const int group = find_axis(computation, "group");
    if (group < 0) {
        std::copy_n(index, computation.result.size(), axes);
        return;
    }
    const int64_t per_group = computation.axes[group + 1].extent;
    axes[0] = index[0];
    axes[group] = index[1] / per_group;
    axes[group + 1] = index[1] % per_group;
    for (size_t d = 2; d < computation.result.size(); ++d) axes[d + 1] = index[d];
}

template <typename T>
T start_value(const Evaluation& e, const int64_t* index) {
    if (e.computation.bias_dimension >= 0) {
        const whet_view& bias = e.op.operands[WHET_BIAS];
        const int64_t stride = bias.rank == 1        ? bias.strides[0]
                               : bias.extents[0] > 1 ? bias.strides[0]
                                                     : bias.strides[bias.rank - 1];
        const int64_t extent = bias.rank == 1
                                   ? bias.extents[0]
                                   : std::max(bias.extents[0], bias.extents[bias.rank - 1]);
        const int64_t at = extent == 1 ? 0 : index[e.computation.bias_dimension] * stride;
        return static_cast<const T*>(e.data[WHET_BIAS])[at];
    }
    if (e.op.beta == 0) return 0;
    const T dst =
        static_cast<const T*>(e.data[WHET_DST])[element_offset(e.op.operands[WHET_DST], index)];
    return e.op.beta == 1 ? dst : static_cast<T>(e.op.beta) * dst;
}

/// A run of products that advance by constant strides: one tap's channels.
template <typename T>
struct Run {
    const T* a;
    const T* b;
    int64_t a_stride, b_stride, count;
};

/// Calls visit(run) for the taps, ascending, of channels [first, last); taps that miss the input
/// are left out.
template <typename T, typename Visit>
void for_runs(const Evaluation& e, int64_t* axes, int64_t first, int64_t last, Visit visit) {
    const auto& all = e.computation.axes;
    const auto& reads = e.computation.reads;
    const int64_t taps = extent_of(e.computation, AxisKind::tap);
    const int channel = static_cast<int>(all.size()) - 1;
    Run<T> run{nullptr, nullptr, stride_along(e.op, reads[0], channel),
               stride_along(e.op, reads[1], channel), last - first};
    axes[channel] = first;
    for (int64_t tap = 0; tap < taps; ++tap) {
        int64_t rest = tap;
        for (int axis = channel - 1; axis >= 0 && all[axis].kind == AxisKind::tap; --axis) {
            axes[axis] = rest % all[axis].extent;
            rest /= all[axis].extent;
        }
        int64_t a_offset, b_offset;
        if (!offset_of(e, reads[0], axes, &a_offset) || !offset_of(e, reads[1], axes, &b_offset))
            continue;
        run.a = static_cast<const T*>(e.data[reads[0].operand]) + a_offset;
        run.b = static_cast<const T*>(e.data[reads[1].operand]) + b_offset;
        visit(run);
    }
}

template <typename T>
T chain_any(const Run<T>& run, T acc) {
    for (int64_t i = 0; i < run.count; ++i)
        acc = std::fma(run.a[i * run.a_stride], run.b[i * run.b_stride], acc);
    return acc;
}
/// The same with the machine's own instruction in place of a call.
__attribute__((target("fma"))) float chain_fma(const Run<float>& run, float acc) {
    for (int64_t i = 0; i < run.count; ++i)
        acc = __builtin_fmaf(run.a[i * run.a_stride], run.b[i * run.b_stride], acc);
    return acc;
}
__attribute__((target("fma"))) double chain_fma(const Run<double>& run, double acc) {
    for (int64_t i = 0; i < run.count; ++i)
        acc = __builtin_fma(run.a[i * run.a_stride], run.b[i * run.b_stride], acc);
    return acc;
}

template <typename T>
T sum_element(const Evaluation& e, const int64_t* index) {
    static const bool has_fma = __builtin_cpu_supports("fma");
    int64_t axes[kMaxAxes] = {};
    set_spatial(e.computation, index, axes);
    T result = start_value<T>(e, index);
    const T alpha = static_cast<T>(e.op.alpha);
    const int64_t channels = alpha == 0 ? 0 : e.computation.axes.back().extent;
    for (int64_t first = 0; first < channels; first += e.computation.segment) {
        T acc = 0;
        for_runs<T>(
            e, axes, first, std::min(channels, first + e.computation.segment),
            [&](const Run<T>& run) { acc = has_fma ? chain_fma(run, acc) : chain_any(run, acc); });
        result = std::fma(alpha, acc, result);
    }
    return e.op.epilogue == WHET_EPILOGUE_RELU ? relu(result) : result;
}

/// Sums in `Wide`, which holds the products of two T exactly, or nearly.
template <typename T, typename Wide>
ExactElement exact_sum(const Evaluation& e, const int64_t* index) {
    int64_t axes[kMaxAxes] = {};
    set_spatial(e.computation, index, axes);
    const Wide start = start_value<T>(e, index), alpha = static_cast<Wide>(e.op.alpha);
    Wide value = 0, magnitude = 0;
    if (alpha != 0)
        for_runs<T>(e, axes, 0, e.computation.axes.back().extent, [&](const Run<T>& run) {
            for (int64_t i = 0; i < run.count; ++i) {
                const Wide product =
                    static_cast<Wide>(run.a[i * run.a_stride]) * run.b[i * run.b_stride];
                value += product;
                magnitude += std::fabs(product);
            }
        });
    ExactElement exact;
    exact.value = static_cast<double>(alpha == 0 ? start : alpha * value + start);
    exact.magnitude = static_cast<double>(std::fabs(alpha) * magnitude + std::fabs(start));
    if (e.op.epilogue == WHET_EPILOGUE_RELU && exact.value < 0) exact.value = 0;
    return exact;
}

void softmax_row(const whet_op& op, const float* src, float* dst) {
    MicrokernelSpec spec;
    spec.kind = MicrokernelKind::softmax;
    spec.vectors = 0;
    spec.scalar = ScalarForm{};
    spec.vector = VectorForm{};
    const SoftmaxArgs args{src, dst, 1, op.operands[WHET_DST].extents[1], 0, 0};
    run_portable(spec, &args);
}

ExactElement exact_softmax(const whet_op& op, void* const* data, const int64_t* index) {
    const whet_view& src = op.operands[WHET_A];
    const float* row = static_cast<const float*>(data[WHET_A]) + index[0] * src.strides[0];
    double most = -INFINITY, sum = 0;
    bool nan = false;
    for (int64_t c = 0; c < src.extents[1]; ++c) {
        nan |= std::isnan(row[c]);
        most = std::max<double>(most, row[c]);
    }
    for (int64_t c = 0; c < src.extents[1]; ++c) sum += std::exp(row[c] - most);
    ExactElement exact;
    exact.value = nan ? NAN : std::exp(row[index[1]] - most) / sum;
    exact.magnitude = std::fabs(exact.value);
    return exact;
}

template <typename T>
void sum_all(const Evaluation& e) {
    const whet_view& dst = e.op.operands[WHET_DST];
    auto* out = static_cast<T*>(e.data[WHET_DST]);
    int64_t index[WHET_MAX_RANK] = {};
    for (;;) {
        out[element_offset(dst, index)] = sum_element<T>(e, index);
        int d = dst.rank - 1;
        while (d >= 0 && ++index[d] == dst.extents[d]) index[d--] = 0;
        if (d < 0) return;
    }
}

}  // namespace

double reference_consistent_element(const whet_op& op, void* const* data,
                                    const int64_t* index) noexcept {
    const auto computation = computation_of(op);
    if (!computation) return NAN;
    if (computation->combiner == Combiner::fma_sum)
        return element_of(op) == Element::f64
                   ? sum_element<double>({op, *computation, data}, index)
                   : static_cast<double>(sum_element<float>({op, *computation, data}, index));
    const whet_view& src = op.operands[WHET_A];
    std::vector<float> row(static_cast<size_t>(src.extents[1]));
    softmax_row(op, static_cast<const float*>(data[WHET_A]) + index[0] * src.strides[0],
                row.data());
    return row[static_cast<size_t>(index[1])];
}

void reference_consistent(const whet_op& op, void* const* data) noexcept {
    if (is_empty(op)) return;
    const auto computation = computation_of(op);
    if (!computation) return;
    const whet_view& dst = op.operands[WHET_DST];
    if (computation->combiner == Combiner::softmax) {
        auto* out = static_cast<float*>(data[WHET_DST]);
        for (int64_t r = 0; r < dst.extents[0]; ++r)
            softmax_row(
                op, static_cast<const float*>(data[WHET_A]) + r * op.operands[WHET_A].strides[0],
                out + r * dst.strides[0]);
        return;
    }
    if (element_of(op) == Element::f64)
        sum_all<double>({op, *computation, data});
    else
        sum_all<float>({op, *computation, data});
}

ExactElement reference_exact_element(const whet_op& op, void* const* data,
                                     const int64_t* index) noexcept {
    const auto computation = computation_of(op);
    if (!computation) return {NAN, NAN};
    if (computation->combiner == Combiner::softmax) return exact_softmax(op, data, index);
    if (element_of(op) == Element::f64)
        return exact_sum<double, long double>({op, *computation, data}, index);
    return exact_sum<float, double>({op, *computation, data}, index);
}

int64_t reduction_depth(const whet_op& op) noexcept {
    const auto computation = computation_of(op);
    if (!computation) return 0;
    if (computation->combiner == Combiner::softmax) return computation->axes.back().extent;
    return extent_of(*computation, AxisKind::tap) * extent_of(*computation, AxisKind::channel);
}

double tolerance(const whet_op& op, const ExactElement& exact) noexcept {
    // Higham 2002, eq. 3.5: |error| <= gamma_n * sum |x y| for a sum of n products in any order;
    // two more roundings for alpha and the start value. Softmax adds the error of exp and of the
    // division; f64 the rounding of its exact value to f64.
    const double depth =
        static_cast<double>(reduction_depth(op)) + (op.kind == WHET_SOFTMAX ? 16 : 3);
    if (element_of(op) == Element::f64)
        return (depth + 1) * (DBL_EPSILON / 2) * exact.magnitude + DBL_MIN;
    return depth * (FLT_EPSILON / 2) * exact.magnitude + FLT_MIN;
}

}  // namespace whet::jit
