// SPDX-License-Identifier: Apache-2.0
// What all computations share: the table of operators, strides, printing.
#include "jit/op/computation.hpp"

#include <bit>
#include <cstring>

namespace whet::jit {

namespace {

struct Entry {
    uint32_t kind;
    base::Result<Computation> (*make)(const whet_op&);
};

/// Every operator that Whet knows.
constexpr Entry kOperators[] = {
    {WHET_MATMUL, matmul_computation},
    {WHET_CONV, conv_computation},
    {WHET_CONV_TRANSPOSE, conv_transpose_computation},
    {WHET_SOFTMAX, softmax_computation},
};

std::string print_index(const Computation& computation, const AffineIndex& index) {
    std::string text;
    for (size_t a = 0; a < index.coefficients.size(); ++a) {
        const int64_t c = index.coefficients[a];
        if (c == 0) continue;
        const int64_t magnitude = c < 0 ? -c : c;
        if (c < 0)
            text += text.empty() ? "-" : " - ";
        else if (!text.empty())
            text += " + ";
        if (magnitude != 1) text += std::to_string(magnitude) + " * ";
        text += computation.axes[a].name;
    }
    if (text.empty()) return std::to_string(index.offset);
    if (index.offset > 0) text += " + " + std::to_string(index.offset);
    if (index.offset < 0) text += " - " + std::to_string(-index.offset);
    if (index.divisor != 1) text = "(" + text + ") / " + std::to_string(index.divisor);
    return text;
}

std::string print_indices(const Computation& computation, const std::vector<AffineIndex>& indices) {
    std::string text = "[";
    for (size_t d = 0; d < indices.size(); ++d)
        text += (d ? ", " : "") + print_index(computation, indices[d]);
    return text + "]";
}

int64_t dot(const whet_view& view, const std::vector<AffineIndex>& dimensions, int axis) {
    int64_t stride = 0;
    for (size_t d = 0; d < dimensions.size(); ++d)
        if (view.extents[d] != 1) stride += dimensions[d].coefficients[axis] * view.strides[d];
    return stride;
}

}  // namespace

base::Result<Computation> computation_of(const whet_op& op) {
    for (const Entry& entry : kOperators)
        if (entry.kind == op.kind) return entry.make(op);
    return base::make_error(base::Code::unsupported, "no operator of kind %u: kinds are 1 to 4",
                            op.kind);
}

int64_t channels_per_segment(int64_t taps) noexcept {
    const int64_t bound = 576 / taps;
    return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(bound < 8 ? 8 : bound)));
}

std::string Computation::print() const {
    static constexpr const char* kNames[] = {"dst", "a", "b", "bias"};
    static constexpr const char* kKinds[] = {"", " (tap)", " (channel)"};
    std::string text = "dst" + print_indices(*this, result) + " = ";
    if (combiner == Combiner::softmax) {
        text += "softmax over " + std::string(axes.back().name) + " of a" +
                print_indices(*this, reads[0].dimensions);
    } else {
        text += "sum of ";
        for (size_t r = 0; r < reads.size(); ++r)
            text += (r ? " * " : "") + std::string(kNames[reads[r].operand]) +
                    print_indices(*this, reads[r].dimensions);
    }
    text += "\n  axes:";
    for (const Axis& axis : axes)
        text += " " + std::string(axis.name) + "=" + std::to_string(axis.extent) +
                kKinds[static_cast<int>(axis.kind)];
    if (segment > 0) text += "\n  segment: " + std::to_string(segment) + " channels";
    return text + "\n";
}

int64_t extent_of(const Computation& computation, AxisKind kind) noexcept {
    int64_t extent = 1;
    for (const Axis& axis : computation.axes)
        if (axis.kind == kind) extent *= axis.extent;
    return extent;
}

int find_axis(const Computation& computation, const char* name) noexcept {
    for (size_t a = 0; a < computation.axes.size(); ++a)
        if (std::strcmp(computation.axes[a].name, name) == 0) return static_cast<int>(a);
    return -1;
}

int64_t stride_along(const whet_op& op, const Read& read, int axis) noexcept {
    return dot(op.operands[read.operand], read.dimensions, axis);
}

int64_t result_stride_along(const whet_op& op, const Computation& computation, int axis) noexcept {
    return dot(op.operands[WHET_DST], computation.result, axis);
}

Element element_of(const whet_op& op) noexcept {
    return op.operands[WHET_DST].dtype == WHET_F64 ? Element::f64 : Element::f32;
}

bool is_empty(const whet_op& op) noexcept {
    const whet_view& dst = op.operands[WHET_DST];
    for (int d = 0; d < dst.rank; ++d)
        if (dst.extents[d] == 0) return true;
    return false;
}

}  // namespace whet::jit
