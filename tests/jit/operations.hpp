// SPDX-License-Identifier: Apache-2.0
// Operations and operands for tests of the engine: compact or strided, with poisoned gaps.
#pragma once

#include <cstring>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include <whet/whet.h>

namespace whet::test {

inline whet_view view_of(std::initializer_list<int64_t> extents,
                         std::initializer_list<int64_t> strides = {}) {
    whet_view view{};
    view.dtype = WHET_F32;
    view.rank = static_cast<int32_t>(extents.size());
    int64_t stride = 1;
    for (int d = view.rank - 1; d >= 0; --d) {
        view.extents[d] = extents.begin()[d];
        view.strides[d] = strides.size() ? strides.begin()[d] : stride;
        stride *= view.extents[d];
    }
    return view;
}

inline whet_op op_of(whet_kind kind, std::initializer_list<whet_view> operands) {
    whet_op op{};
    op.size = sizeof(op);
    op.kind = kind;
    op.alpha = 1.0f;
    op.groups = 1;
    for (int d = 0; d < 3; ++d) op.stride[d] = op.dilation[d] = 1;
    for (const whet_view& view : operands) op.operands[op.operand_count++] = view;
    return op;
}

inline whet_op matmul_op(int64_t m, int64_t n, int64_t k, bool b_transposed = false,
                         bool a_transposed = false) {
    return op_of(WHET_MATMUL,
                 {view_of({m, n}), a_transposed ? view_of({m, k}, {1, m}) : view_of({m, k}),
                  b_transposed ? view_of({k, n}, {1, k}) : view_of({k, n})});
}

/// The same product of f64 operands.
inline whet_op in_f64(whet_op op) {
    for (uint32_t i = 0; i < op.operand_count; ++i) op.operands[i].dtype = WHET_F64;
    return op;
}

struct ConvCase {
    int64_t batch = 1, in = 1, out = 1, rows = 1, columns = 1, kernel = 1;
    int stride = 1, padding = 0, dilation = 1, groups = 1, output_padding = 0;
    bool transposed = false, bias = false;
};

inline whet_op conv_op(const ConvCase& c) {
    const auto extent = [&](int64_t n) {
        if (c.transposed)
            return (n - 1) * c.stride - 2 * c.padding + c.dilation * (c.kernel - 1) +
                   c.output_padding + 1;
        return (n + 2 * c.padding - c.dilation * (c.kernel - 1) - 1) / c.stride + 1;
    };
    const whet_view weights = c.transposed ? view_of({c.in, c.out / c.groups, c.kernel, c.kernel})
                                           : view_of({c.out, c.in / c.groups, c.kernel, c.kernel});
    whet_op op = op_of(c.transposed ? WHET_CONV_TRANSPOSE : WHET_CONV,
                       {view_of({c.batch, c.out, extent(c.rows), extent(c.columns)}),
                        view_of({c.batch, c.in, c.rows, c.columns}), weights});
    if (c.bias) op.operands[op.operand_count++] = view_of({c.out});
    op.spatial_rank = 2;
    op.groups = c.groups;
    for (int d = 0; d < 2; ++d) {
        op.stride[d] = c.stride;
        op.padding[d] = c.padding;
        op.dilation[d] = c.dilation;
        op.output_padding[d] = c.output_padding;
    }
    return op;
}

inline int64_t elements_of(const whet_view& view) {
    int64_t last = 0;
    for (int d = 0; d < view.rank; ++d) {
        if (view.extents[d] == 0) return 0;
        last += (view.extents[d] - 1) * view.strides[d];
    }
    return last + 1;
}

/// One buffer per operand, of exactly the operand's span; an f64 value takes two floats of it.
struct Buffers {
    std::vector<std::vector<float>> storage;
    std::vector<void*> pointers;

    Buffers(const whet_op& op, std::mt19937& random, bool integers) {
        std::uniform_real_distribution<float> real(-1.0f, 1.0f);
        std::uniform_int_distribution<int> whole(-4, 4);
        for (uint32_t i = 0; i < op.operand_count; ++i) {
            const auto count = static_cast<size_t>(elements_of(op.operands[i]));
            if (op.operands[i].dtype == WHET_F64) {
                std::uniform_real_distribution<double> wide(-1.0, 1.0);
                std::vector<double> values(count);
                for (double& x : values) x = integers ? whole(random) : wide(random);
                storage.emplace_back(2 * count);
                if (count > 0) std::memcpy(storage.back().data(), values.data(), count * sizeof(double));
                continue;
            }
            storage.emplace_back(count);
            for (float& x : storage.back())
                x = integers ? static_cast<float>(whole(random)) : real(random);
        }
        for (auto& buffer : storage) pointers.push_back(buffer.data());
    }
};

/// Element `at` of a buffer of an operand.
inline double value_at(const whet_view& view, const std::vector<float>& buffer, int64_t at) {
    if (view.dtype != WHET_F64) return static_cast<double>(buffer[static_cast<size_t>(at)]);
    double value;
    std::memcpy(&value, buffer.data() + 2 * at, sizeof(value));
    return value;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() &&
           (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

}  // namespace whet::test
