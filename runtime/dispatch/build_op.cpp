// SPDX-License-Identifier: Apache-2.0
// The whet_op_* builders: check everything the caller says, then fill the operation, or change
// nothing.
#include <climits>
#include <cstring>

#include <whet/whet.h>

#include "base/status.hpp"
#include "runtime/dispatch/last_error.hpp"
#include "runtime/dispatch/operation.hpp"

namespace whet::runtime {
namespace {

using base::Code;
using base::make_error;
using base::Result;

constexpr int64_t kMostElements = int64_t{1}
                                  << 48;  // keeps every offset, in bytes, far inside 64 bits

/// The type of a product's operands, that of its destination.
int32_t dtype_of_product(const whet_tensor* c) {
    return c && c->dtype == WHET_F64 ? WHET_F64 : WHET_F32;
}

/// Copies the shape of a tensor; fills compact strides where none are given.
Result<whet_view> view_of(const whet_tensor* tensor, const char* name, int least_rank,
                          int most_rank, int32_t dtype = WHET_F32) {
    if (!tensor) return make_error(Code::invalid_argument, "%s: got null, expected a tensor", name);
    if (static_cast<int32_t>(tensor->dtype) != dtype) {
        return make_error(Code::unsupported, "%s: got dtype %d, expected %s", name,
                          static_cast<int>(tensor->dtype), dtype == WHET_F64 ? "f64" : "f32");
    }
    if (tensor->rank < least_rank || tensor->rank > most_rank) {
        return make_error(Code::unsupported, "%s: got rank %d, expected %d to %d", name,
                          tensor->rank, least_rank, most_rank);
    }
    if (!tensor->extents) return make_error(Code::invalid_argument, "%s: got no extents", name);
    whet_view view;
    std::memset(&view, 0, sizeof view);
    view.dtype = tensor->dtype;
    view.rank = tensor->rank;
    int64_t compact = 1, reach = 1;
    for (int i = tensor->rank - 1; i >= 0; --i) {
        const int64_t extent = tensor->extents[i];
        if (extent < 0 || extent > INT32_MAX) {
            return make_error(Code::invalid_argument,
                              "%s: got extent %lld at axis %d, expected 0 to 2^31 - 1", name,
                              static_cast<long long>(extent), i);
        }
        const int64_t stride = tensor->strides ? tensor->strides[i] : compact;
        if (stride < 0 && extent > 1) {
            return make_error(Code::unsupported,
                              "%s: got stride %lld at axis %d, expected 0 or more", name,
                              static_cast<long long>(stride), i);
        }
        view.extents[i] = extent;
        view.strides[i] = extent == 1 ? 0 : stride;
        if (extent > 0 && compact <= kMostElements) compact *= extent;
        int64_t step = 0;
        if (extent > 1 && (__builtin_mul_overflow(extent - 1, stride, &step) ||
                           __builtin_add_overflow(reach, step, &reach) || reach > kMostElements)) {
            return make_error(Code::unsupported,
                              "%s: got a tensor that spans more than 2^48 elements", name);
        }
    }
    if (compact > kMostElements) {
        return make_error(Code::unsupported, "%s: got a tensor of more than 2^48 elements", name);
    }
    return view;
}

/// An output's elements must be distinct: no stride 0, no axis that runs into another one.
Result<void> check_output(const whet_view& view, const char* name) {
    int order[WHET_MAX_RANK];
    int count = 0;
    for (int i = 0; i < view.rank; ++i) {
        if (view.extents[i] == 0) return {};
        if (view.extents[i] > 1) order[count++] = i;
    }
    for (int i = 1; i < count; ++i) {
        for (int j = i; j > 0 && view.strides[order[j]] < view.strides[order[j - 1]]; --j)
            std::swap(order[j], order[j - 1]);
    }
    int64_t reach = 0;
    for (int i = 0; i < count; ++i) {
        const int axis = order[i];
        if (view.strides[axis] <= reach) {
            return make_error(
                Code::unsupported,
                "%s: got stride %lld at axis %d, expected more than %lld (its elements overlap)",
                name, static_cast<long long>(view.strides[axis]), axis,
                static_cast<long long>(reach));
        }
        reach += (view.extents[axis] - 1) * view.strides[axis];
    }
    return {};
}

Result<void> expect_extent(const whet_view& view, int axis, int64_t expected, const char* name) {
    if (view.extents[axis] == expected) return {};
    return make_error(Code::invalid_argument, "%s: got extent %lld at axis %d, expected %lld", name,
                      static_cast<long long>(view.extents[axis]), axis,
                      static_cast<long long>(expected));
}

/// Makes an operand of the destination's rank, its batch axis of stride 0 where it has none or has
/// extent 1.
Result<whet_view> with_batch(whet_view view, const whet_view& dst, const char* name) {
    if (dst.rank == 2) {
        if (view.rank != 2)
            return make_error(Code::invalid_argument, "%s: got rank %d, expected 2", name,
                              view.rank);
        return view;
    }
    if (view.rank == 2) {
        for (int i = 2; i > 0; --i) {
            view.extents[i] = view.extents[i - 1];
            view.strides[i] = view.strides[i - 1];
        }
        view.rank = 3;
        view.extents[0] = dst.extents[0];
        view.strides[0] = 0;
    } else if (view.extents[0] == 1) {
        view.extents[0] = dst.extents[0];
        view.strides[0] = 0;
    }
    WHET_TRY_VOID(expect_extent(view, 0, dst.extents[0], name));
    return view;
}

struct Bias {
    whet_view view;
    uint32_t axis;
};

/// Reads a bias of [N], [1, N], [M, 1] or one element into a vector along one axis of the product.
Result<Bias> bias_of(const whet_tensor* tensor, int64_t m, int64_t n, int32_t dtype) {
    WHET_TRY(const whet_view view, view_of(tensor, "bias", 1, 2, dtype));
    Bias bias;
    std::memset(&bias, 0, sizeof bias);
    bias.view.dtype = view.dtype;
    bias.view.rank = 1;
    const int last = view.rank - 1;
    const bool one_row = view.rank == 1 || view.extents[0] == 1;
    if (one_row && (view.extents[last] == n || view.extents[last] == 1)) {
        bias.axis = 1;
        bias.view.extents[0] = n;
        bias.view.strides[0] = view.extents[last] == 1 ? 0 : view.strides[last];
        return bias;
    }
    if (view.rank == 2 && view.extents[1] == 1 && view.extents[0] == m) {
        bias.axis = 0;
        bias.view.extents[0] = m;
        bias.view.strides[0] = view.strides[0];
        return bias;
    }
    return make_error(Code::invalid_argument,
                      "bias: got extents [%lld%s%s], expected [%lld] or [%lld, 1]",
                      static_cast<long long>(view.extents[0]), view.rank == 2 ? ", " : "",
                      view.rank == 2 ? std::to_string(view.extents[1]).c_str() : "",
                      static_cast<long long>(n), static_cast<long long>(m));
}

Result<void> check_epilogue(whet_epilogue epilogue) {
    if (epilogue == WHET_EPILOGUE_NONE || epilogue == WHET_EPILOGUE_RELU) return {};
    return make_error(Code::unsupported, "got epilogue %d, expected none or relu",
                      static_cast<int>(epilogue));
}

void start_op(whet_op& op, whet_kind kind, uint32_t operands) {
    std::memset(&op, 0, sizeof op);
    op.size = sizeof op;
    op.kind = kind;
    op.operand_count = operands;
    op.alpha = 1;
    op.groups = 1;
}

bool regions_meet(const whet_tensor* dst, const whet_view& dst_view, const whet_tensor* src,
                  const whet_view& src_view) {
    const int64_t dst_bytes =
                      element_span(dst_view) * static_cast<int64_t>(element_bytes(dst_view)),
                  src_bytes =
                      element_span(src_view) * static_cast<int64_t>(element_bytes(src_view));
    if (!dst->data || !src->data || dst_bytes == 0 || src_bytes == 0) return false;
    const auto d = reinterpret_cast<uintptr_t>(dst->data),
               s = reinterpret_cast<uintptr_t>(src->data);
    return d < s + static_cast<uintptr_t>(src_bytes) && s < d + static_cast<uintptr_t>(dst_bytes);
}

Result<whet_op> matmul_op(const whet_tensor* c, const whet_tensor* a, const whet_tensor* b,
                          const whet_tensor* bias, double alpha, double beta,
                          whet_epilogue epilogue) {
    const int32_t dtype = dtype_of_product(c);
    if (dtype == WHET_F32) {
        alpha = static_cast<float>(alpha);
        beta = static_cast<float>(beta);
    }
    WHET_TRY(const whet_view dst, view_of(c, "c", 2, 3, dtype));
    WHET_TRY(const whet_view a_given, view_of(a, "a", 2, 3, dtype));
    WHET_TRY(const whet_view b_given, view_of(b, "b", 2, 3, dtype));
    WHET_TRY_VOID(check_epilogue(epilogue));
    WHET_TRY(const whet_view a_view, with_batch(a_given, dst, "a"));
    WHET_TRY(const whet_view b_view, with_batch(b_given, dst, "b"));
    const int m_axis = dst.rank - 2, n_axis = dst.rank - 1;
    WHET_TRY_VOID(expect_extent(a_view, m_axis, dst.extents[m_axis], "a"));
    WHET_TRY_VOID(expect_extent(b_view, n_axis, dst.extents[n_axis], "b"));
    WHET_TRY_VOID(expect_extent(b_view, m_axis, a_view.extents[n_axis], "b"));
    WHET_TRY_VOID(check_output(dst, "c"));
    if (regions_meet(c, dst, a, a_given) || regions_meet(c, dst, b, b_given)) {
        return make_error(Code::invalid_argument,
                          "got c overlapping a or b, expected separate memory");
    }
    whet_op op;
    start_op(op, WHET_MATMUL, bias ? 4 : 3);
    op.epilogue = epilogue;
    op.alpha = alpha;
    op.beta = beta;
    op.operands[WHET_DST] = dst;
    op.operands[WHET_A] = a_view;
    op.operands[WHET_B] = b_view;
    if (bias) {
        if (beta != 0) {
            return make_error(Code::invalid_argument, "got a bias and beta %g, expected beta 0",
                              beta);
        }
        WHET_TRY(const Bias found, bias_of(bias, dst.extents[m_axis], dst.extents[n_axis], dtype));
        if (regions_meet(c, dst, bias, found.view)) {
            return make_error(Code::invalid_argument,
                              "got c overlapping bias, expected separate memory");
        }
        op.operands[WHET_BIAS] = found.view;
        op.bias_axis = found.axis;
    }
    return op;
}

int64_t conv_output(int64_t in, int64_t kernel, const whet_conv_params& p, int i) {
    const int64_t reach =
        in + 2 * int64_t{p.padding[i]} - int64_t{p.dilation[i]} * (kernel - 1) - 1;
    return reach < 0 ? -1 : reach / p.stride[i] + 1;
}

int64_t conv_transpose_output(int64_t in, int64_t kernel, const whet_conv_params& p, int i) {
    return (in - 1) * p.stride[i] - 2 * int64_t{p.padding[i]} +
           int64_t{p.dilation[i]} * (kernel - 1) + p.output_padding[i] + 1;
}

Result<void> check_conv_params(const whet_conv_params& p, int spatial, bool transposed) {
    if (p.groups < 1)
        return make_error(Code::invalid_argument, "got %d groups, expected 1 or more", p.groups);
    for (int i = 0; i < spatial; ++i) {
        if (p.stride[i] < 1)
            return make_error(Code::invalid_argument, "got stride %d, expected 1 or more",
                              p.stride[i]);
        if (p.padding[i] < 0)
            return make_error(Code::invalid_argument, "got padding %d, expected 0 or more",
                              p.padding[i]);
        if (p.dilation[i] < 1) {
            return make_error(Code::invalid_argument, "got dilation %d, expected 1 or more",
                              p.dilation[i]);
        }
        const int largest =
            transposed ? (p.stride[i] > p.dilation[i] ? p.stride[i] : p.dilation[i]) - 1 : 0;
        if (p.output_padding[i] < 0 || p.output_padding[i] > largest) {
            return make_error(Code::invalid_argument, "got output padding %d, expected 0 to %d",
                              p.output_padding[i], largest);
        }
    }
    return {};
}

Result<whet_op> conv_op(whet_kind kind, const whet_tensor* dst_tensor,
                        const whet_tensor* src_tensor, const whet_tensor* weights_tensor,
                        const whet_tensor* bias, const whet_conv_params* params,
                        whet_epilogue epilogue) {
    const bool transposed = kind == WHET_CONV_TRANSPOSE;
    WHET_TRY(const whet_view dst, view_of(dst_tensor, "dst", 3, 5));
    WHET_TRY(const whet_view src, view_of(src_tensor, "src", dst.rank, dst.rank));
    WHET_TRY(const whet_view weights, view_of(weights_tensor, "weights", dst.rank, dst.rank));
    if (!params) return make_error(Code::invalid_argument, "params: got null");
    const int spatial = dst.rank - 2;
    WHET_TRY_VOID(check_epilogue(epilogue));
    WHET_TRY_VOID(check_conv_params(*params, spatial, transposed));
    const int64_t ci = src.extents[1], co = dst.extents[1], groups = params->groups;
    if (ci % groups != 0 || co % groups != 0) {
        return make_error(
            Code::invalid_argument, "got %lld and %lld channels in %lld groups, expected multiples",
            static_cast<long long>(ci), static_cast<long long>(co), static_cast<long long>(groups));
    }
    WHET_TRY_VOID(expect_extent(src, 0, dst.extents[0], "src"));
    WHET_TRY_VOID(expect_extent(weights, 0, transposed ? ci : co, "weights"));
    WHET_TRY_VOID(expect_extent(weights, 1, (transposed ? co : ci) / groups, "weights"));
    for (int i = 0; i < spatial; ++i) {
        const int64_t in = src.extents[2 + i], kernel = weights.extents[2 + i];
        if (kernel < 1) return make_error(Code::invalid_argument, "weights: got an empty kernel");
        WHET_TRY_VOID(expect_extent(dst, 2 + i,
                                    transposed ? conv_transpose_output(in, kernel, *params, i)
                                               : conv_output(in, kernel, *params, i),
                                    "dst"));
    }
    WHET_TRY_VOID(check_output(dst, "dst"));
    if (regions_meet(dst_tensor, dst, src_tensor, src) ||
        regions_meet(dst_tensor, dst, weights_tensor, weights)) {
        return make_error(Code::invalid_argument,
                          "got dst overlapping src or weights, expected separate memory");
    }
    whet_op op;
    start_op(op, kind, bias ? 4 : 3);
    op.epilogue = epilogue;
    op.spatial_rank = spatial;
    op.groups = params->groups;
    for (int i = 0; i < spatial; ++i) {
        op.stride[i] = params->stride[i];
        op.padding[i] = params->padding[i];
        op.dilation[i] = params->dilation[i];
        op.output_padding[i] = transposed ? params->output_padding[i] : 0;
    }
    op.operands[WHET_DST] = dst;
    op.operands[WHET_A] = src;
    op.operands[WHET_B] = weights;
    if (bias) {
        WHET_TRY(whet_view view, view_of(bias, "bias", 1, 1));
        WHET_TRY_VOID(expect_extent(view, 0, co, "bias"));
        op.operands[WHET_BIAS] = view;
    }
    return op;
}

Result<whet_op> softmax_op(const whet_tensor* dst_tensor, const whet_tensor* src_tensor) {
    WHET_TRY(const whet_view dst, view_of(dst_tensor, "dst", 2, 2));
    WHET_TRY(const whet_view src, view_of(src_tensor, "src", 2, 2));
    WHET_TRY_VOID(expect_extent(src, 0, dst.extents[0], "src"));
    WHET_TRY_VOID(expect_extent(src, 1, dst.extents[1], "src"));
    WHET_TRY_VOID(check_output(dst, "dst"));
    if (regions_meet(dst_tensor, dst, src_tensor, src)) {
        return make_error(Code::invalid_argument,
                          "got dst overlapping src, expected separate memory");
    }
    whet_op op;
    start_op(op, WHET_SOFTMAX, 2);
    op.operands[WHET_DST] = dst;
    op.operands[WHET_A] = src;
    return op;
}

whet_status deliver(whet_op* op, const Result<whet_op>& result) {
    if (!op) return fail(make_error(Code::invalid_argument, "op: got null"));
    if (!result) return fail(result.error());
    *op = canonical(*result);
    return WHET_OK;
}

}  // namespace
}  // namespace whet::runtime

using namespace whet::runtime;

extern "C" {

whet_status whet_op_matmul(whet_op* op, const whet_tensor* c, const whet_tensor* a,
                           const whet_tensor* b, const whet_tensor* bias, double alpha, double beta,
                           whet_epilogue epilogue) {
    return deliver(op, matmul_op(c, a, b, bias, alpha, beta, epilogue));
}

whet_status whet_op_conv(whet_op* op, const whet_tensor* dst, const whet_tensor* src,
                         const whet_tensor* weights, const whet_tensor* bias,
                         const whet_conv_params* params, whet_epilogue epilogue) {
    return deliver(op, conv_op(WHET_CONV, dst, src, weights, bias, params, epilogue));
}

whet_status whet_op_conv_transpose(whet_op* op, const whet_tensor* dst, const whet_tensor* src,
                                   const whet_tensor* weights, const whet_tensor* bias,
                                   const whet_conv_params* params, whet_epilogue epilogue) {
    return deliver(op, conv_op(WHET_CONV_TRANSPOSE, dst, src, weights, bias, params, epilogue));
}

whet_status whet_op_softmax(whet_op* op, const whet_tensor* dst, const whet_tensor* src) {
    return deliver(op, softmax_op(dst, src));
}

whet_status whet_op_set_frozen(whet_op* op, int index) {
    if (!op) return fail(make_error(Code::invalid_argument, "op: got null"));
    if (index < 1 || index >= static_cast<int>(op->operand_count)) {
        return fail(make_error(Code::invalid_argument, "got operand %d, expected 1 to %u", index,
                               op->operand_count - 1));
    }
    op->frozen |= 1u << index;
    return WHET_OK;
}

whet_status whet_op_set_threads(whet_op* op, int threads) {
    if (!op) return fail(make_error(Code::invalid_argument, "op: got null"));
    if (threads < 1 || threads > WHET_MAX_THREADS) {
        return fail(make_error(Code::invalid_argument, "got %d threads, expected 1 to %d", threads,
                               WHET_MAX_THREADS));
    }
    op->threads = threads > 1 ? static_cast<uint32_t>(threads) : 0;
    return WHET_OK;
}

const char* whet_last_error(void) { return last_error(); }

}  // extern "C"
