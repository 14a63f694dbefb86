// SPDX-License-Identifier: Apache-2.0
// Operations for the forge's tests, made without the C ABI.
#pragma once

#include <initializer_list>

#include <whet/whet.h>

namespace whet::runtime::forge {

inline whet_view view_of(std::initializer_list<int64_t> extents,
                         std::initializer_list<int64_t> strides = {}) {
    whet_view view{};
    view.dtype = WHET_F32;
    view.rank = static_cast<int32_t>(extents.size());
    int d = 0;
    for (const int64_t extent : extents) view.extents[d++] = extent;
    d = 0;
    for (const int64_t stride : strides) view.strides[d++] = stride;
    if (strides.size() == 0) {
        int64_t stride = 1;
        for (d = view.rank - 1; d >= 0; --d) {
            view.strides[d] = stride;
            stride *= view.extents[d];
        }
    }
    return view;
}

/// dst [m, n] with row stride `ldc` (0: compact) = a [m, k] b; b is [n, k] when `transposed`.
inline whet_op matmul_op(int64_t m, int64_t k, int64_t n, bool transposed = false,
                         bool frozen = false, float beta = 0, int64_t ldc = 0) {
    whet_op op{};
    op.size = sizeof(op);
    op.kind = WHET_MATMUL;
    op.operand_count = 3;
    op.alpha = 1;
    op.beta = beta;
    op.groups = 1;
    op.frozen = frozen ? 1u << WHET_B : 0;
    op.operands[WHET_DST] = ldc == 0 ? view_of({m, n}) : view_of({m, n}, {ldc, 1});
    op.operands[WHET_A] = view_of({m, k});
    op.operands[WHET_B] = transposed ? view_of({k, n}, {1, k}) : view_of({k, n});
    return op;
}

inline whet_op in_f64(whet_op op) {
    for (uint32_t i = 0; i < op.operand_count; ++i) op.operands[i].dtype = WHET_F64;
    return op;
}

inline whet_op conv_op(int64_t ci, int64_t co, int64_t size, int64_t kernel, int stride,
                       int padding, int groups = 1) {
    whet_op op{};
    op.size = sizeof(op);
    op.kind = WHET_CONV;
    op.operand_count = 3;
    op.alpha = 1;
    op.spatial_rank = 2;
    op.groups = groups;
    for (int d = 0; d < 3; ++d) {
        op.stride[d] = d < 2 ? stride : 0;
        op.padding[d] = d < 2 ? padding : 0;
        op.dilation[d] = d < 2 ? 1 : 0;
    }
    const int64_t out = (size + 2 * padding - kernel) / stride + 1;
    op.operands[WHET_DST] = view_of({1, co, out, out});
    op.operands[WHET_A] = view_of({1, ci, size, size});
    op.operands[WHET_B] = view_of({co, ci / groups, kernel, kernel});
    op.frozen = 1u << WHET_B;
    return op;
}

inline whet_op softmax_op(int64_t rows, int64_t columns) {
    whet_op op{};
    op.size = sizeof(op);
    op.kind = WHET_SOFTMAX;
    op.operand_count = 2;
    op.alpha = 1;
    op.groups = 1;
    op.operands[WHET_DST] = view_of({rows, columns});
    op.operands[WHET_A] = view_of({rows, columns});
    return op;
}

}  // namespace whet::runtime::forge
