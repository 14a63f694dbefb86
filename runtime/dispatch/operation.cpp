// SPDX-License-Identifier: Apache-2.0
// Canonical operations, their identities and their text.
#include "runtime/dispatch/operation.hpp"

#include <cstring>

#include "base/hash.hpp"

namespace whet::runtime {
namespace {

void set_symbolic_to_zero(whet_op& op) {
    const int rank = op.operands[WHET_DST].rank;
    if (op.kind == WHET_MATMUL) {
        op.operands[WHET_DST].extents[rank - 2] = 0;
        op.operands[WHET_A].extents[rank - 2] = 0;
        if (op.operand_count > WHET_BIAS && op.bias_axis == 0)
            op.operands[WHET_BIAS].extents[0] = 0;
    } else {
        op.operands[WHET_DST].extents[0] = 0;
        op.operands[WHET_A].extents[0] = 0;
    }
}

const char* kind_name(uint32_t kind) {
    switch (kind) {
        case WHET_MATMUL: return "matmul";
        case WHET_CONV: return "conv";
        case WHET_CONV_TRANSPOSE: return "conv_transpose";
        case WHET_SOFTMAX: return "softmax";
    }
    return "unknown";
}

std::string list_text(const int32_t* values, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += (i ? "x" : "") + std::to_string(values[i]);
    return text;
}

std::string extents_text(const whet_view& view, int first) {
    std::string text;
    for (int i = first; i < view.rank; ++i)
        text += (i > first ? "x" : "") + std::to_string(view.extents[i]);
    return text;
}

void add_field(std::string& text, const char* name, const std::string& value) {
    text += std::string(" ") + name + "=" + value;
}

std::string number_text(double value) {
    char buffer[32];
    std::snprintf(buffer, sizeof buffer, "%g", value);
    return buffer;
}

/// Whether the matrix is stored column-major (its unit stride lies along its second-last axis).
bool is_transposed(const whet_view& view) {
    return view.strides[view.rank - 1] > 1 && view.strides[view.rank - 2] <= 1 &&
           view.extents[view.rank - 1] > 1;
}

void add_matmul(std::string& text, const whet_op& op) {
    const whet_view& dst = op.operands[WHET_DST];
    const int rank = dst.rank;
    if (rank == 3) add_field(text, "batch", std::to_string(dst.extents[0]));
    add_field(text, "m", std::to_string(dst.extents[rank - 2]));
    add_field(text, "k", std::to_string(op.operands[WHET_A].extents[rank - 1]));
    add_field(text, "n", std::to_string(dst.extents[rank - 1]));
    if (is_transposed(op.operands[WHET_A])) add_field(text, "a", "t");
    if (is_transposed(op.operands[WHET_B])) add_field(text, "b", "t");
    if (dst.dtype == WHET_F64) add_field(text, "dtype", "f64");
    if (op.alpha != 1) add_field(text, "alpha", number_text(op.alpha));
    if (op.beta != 0) add_field(text, "beta", number_text(op.beta));
}

void add_convolution(std::string& text, const whet_op& op) {
    const whet_view& dst = op.operands[WHET_DST];
    const whet_view& src = op.operands[WHET_A];
    add_field(text, "n", std::to_string(dst.extents[0]));
    add_field(text, "ci", std::to_string(src.extents[1]));
    add_field(text, "co", std::to_string(dst.extents[1]));
    add_field(text, "in", extents_text(src, 2));
    add_field(text, "k", extents_text(op.operands[WHET_B], 2));
    add_field(text, "stride", list_text(op.stride, op.spatial_rank));
    add_field(text, "pad", list_text(op.padding, op.spatial_rank));
    for (int i = 0; i < op.spatial_rank; ++i) {
        if (op.dilation[i] == 1) continue;
        add_field(text, "dilation", list_text(op.dilation, op.spatial_rank));
        break;
    }
    if (op.groups != 1) add_field(text, "groups", std::to_string(op.groups));
}

}  // namespace

whet_op canonical(const whet_op& op) noexcept {
    whet_op out;
    std::memset(&out, 0, sizeof out);
    out.size = sizeof(whet_op);
    out.kind = op.kind;
    out.epilogue = op.epilogue;
    out.operand_count = op.operand_count;
    out.frozen = op.frozen & ((1u << op.operand_count) - 1u);
    out.bias_axis = op.operand_count > WHET_BIAS ? op.bias_axis : 0;
    out.alpha = op.alpha == 0 ? 0.0 : op.alpha;
    out.beta = op.beta == 0 ? 0.0 : op.beta;
    out.spatial_rank = op.spatial_rank;
    out.groups = op.groups;
    out.threads = op.threads > 1 ? op.threads : 0;
    for (int i = 0; i < op.spatial_rank && i < 3; ++i) {
        out.stride[i] = op.stride[i];
        out.padding[i] = op.padding[i];
        out.dilation[i] = op.dilation[i];
        out.output_padding[i] = op.output_padding[i];
    }
    for (uint32_t o = 0; o < op.operand_count && o < WHET_MAX_OPERANDS; ++o) {
        const whet_view& from = op.operands[o];
        whet_view& to = out.operands[o];
        to.dtype = from.dtype;
        to.rank = from.rank;
        for (int i = 0; i < from.rank && i < WHET_MAX_RANK; ++i) {
            to.extents[i] = from.extents[i];
            to.strides[i] = from.extents[i] == 1 ? 0 : from.strides[i];
        }
    }
    return out;
}

base::Result<void> check_operation(const whet_op& op) {
    using base::Code;
    if (op.size != sizeof(whet_op)) {
        return base::make_error(Code::invalid_argument,
                                "got an operation of %u bytes, expected %zu", op.size,
                                sizeof(whet_op));
    }
    if (op.kind < WHET_MATMUL || op.kind > WHET_SOFTMAX) {
        return base::make_error(Code::invalid_argument, "got kind %u, expected 1 to 4", op.kind);
    }
    const uint32_t least = op.kind == WHET_SOFTMAX ? 2 : 3;
    const uint32_t most = op.kind == WHET_SOFTMAX ? 2 : WHET_MAX_OPERANDS;
    if (op.operand_count < least || op.operand_count > most) {
        return base::make_error(Code::invalid_argument, "got %u operands, expected %u to %u",
                                op.operand_count, least, most);
    }
    if (op.threads > WHET_MAX_THREADS) {
        return base::make_error(Code::invalid_argument, "got %u threads, expected at most %d",
                                op.threads, WHET_MAX_THREADS);
    }
    if (op.epilogue > WHET_EPILOGUE_RELU || op.bias_axis > 1 || op.spatial_rank < 0 ||
        op.spatial_rank > 3) {
        return base::make_error(Code::invalid_argument, "got an operation not made by whet_op_*");
    }
    const int least_rank = op.kind == WHET_MATMUL || op.kind == WHET_SOFTMAX ? 2 : 3;
    const bool f64 = op.kind == WHET_MATMUL && op.operands[WHET_DST].dtype == WHET_F64;
    const int32_t dtype = f64 ? WHET_F64 : WHET_F32;
    for (uint32_t o = 0; o < op.operand_count; ++o) {
        const whet_view& view = op.operands[o];
        const int least_here = o == WHET_BIAS ? 1 : least_rank;
        if (view.dtype != dtype || view.rank < least_here || view.rank > WHET_MAX_RANK) {
            return base::make_error(
                Code::invalid_argument,
                "operand %u: got dtype %d, rank %d, expected dtype %d, rank %d to %d", o,
                view.dtype, view.rank, dtype, least_here, WHET_MAX_RANK);
        }
    }
    return {};
}

uint64_t operation_id(const whet_op& canonical_op) noexcept {
    return base::hash_bytes(&canonical_op, sizeof canonical_op, 1);
}

uint64_t family_id(const whet_op& canonical_op) noexcept {
    whet_op op = canonical_op;
    set_symbolic_to_zero(op);
    for (auto& view : op.operands) {
        for (int i = 0; i < view.rank; ++i) {
            if (view.extents[i] == 0) view.strides[i] = 0;
            if (view.strides[i] > 1 || view.strides[i] < 0) view.strides[i] = 2;
        }
    }
    return base::hash_bytes(&op, sizeof op, 2);
}

int64_t symbolic_extent(const whet_op& op) noexcept {
    const whet_view& dst = op.operands[WHET_DST];
    return op.kind == WHET_MATMUL ? dst.extents[dst.rank - 2] : dst.extents[0];
}

bool is_degenerate(const whet_op& op) noexcept {
    for (uint32_t o = 0; o < op.operand_count; ++o) {
        if (element_count(op.operands[o]) == 0) return true;
    }
    return false;
}

int64_t element_count(const whet_view& view) noexcept {
    int64_t count = 1;
    for (int i = 0; i < view.rank; ++i) count *= view.extents[i];
    return count;
}

int64_t element_span(const whet_view& view) noexcept {
    int64_t last = 0;
    for (int i = 0; i < view.rank; ++i) {
        if (view.extents[i] == 0) return 0;
        last += (view.extents[i] - 1) * view.strides[i];
    }
    return last + 1;
}

std::string operation_text(const whet_op& op) {
    std::string text = kind_name(op.kind);
    if (op.kind == WHET_MATMUL) {
        add_matmul(text, op);
    } else if (op.kind == WHET_SOFTMAX) {
        add_field(text, "rows", std::to_string(op.operands[WHET_DST].extents[0]));
        add_field(text, "columns", std::to_string(op.operands[WHET_DST].extents[1]));
    } else {
        add_convolution(text, op);
    }
    std::string frozen;
    for (uint32_t o = 0; o < op.operand_count; ++o) {
        if (op.frozen >> o & 1)
            frozen += std::string(frozen.empty() ? "" : ",") +
                      (const char*[]){"dst", "a", "b", "bias"}[o];
    }
    if (!frozen.empty()) add_field(text, "frozen", frozen);
    if (op.threads > 1) add_field(text, "threads", std::to_string(op.threads));
    if (op.operand_count > WHET_BIAS) text += " bias";
    if (op.epilogue == WHET_EPILOGUE_RELU) text += " relu";
    return text;
}

}  // namespace whet::runtime
