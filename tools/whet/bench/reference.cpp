// SPDX-License-Identifier: Apache-2.0
#include "tools/whet/bench/reference.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace whet::bench {
namespace {

void products(const bench_shape& s, float* dst, const float* a, const float* b, const float* bias) {
    const int64_t batches = s.op == BENCH_BMM ? s.batch : 1;
    const bool transposed = s.op == BENCH_LINEAR;
    for (int64_t batch = 0; batch < batches;
         ++batch, dst += s.m * s.n, a += s.m * s.k, b += s.k * s.n)
        for (int64_t i = 0; i < s.m; ++i)
            for (int64_t j = 0; j < s.n; ++j) {
                double sum = bias ? bias[j] : 0.0;
                for (int64_t p = 0; p < s.k; ++p)
                    sum += double{a[i * s.k + p]} *
                           double{transposed ? b[j * s.k + p] : b[p * s.n + j]};
                dst[i * s.n + j] = static_cast<float>(sum);
            }
}

/// Extents padded to three axes; an axis that is not used has extent 1.
struct Box {
    int64_t extent[3] = {1, 1, 1};
    int64_t count() const { return extent[0] * extent[1] * extent[2]; }
};

Box box_of(const int64_t* extents, int rank) {
    Box box;
    for (int axis = 0; axis < rank; ++axis) box.extent[3 - rank + axis] = extents[axis];
    return box;
}

/// Calls visit(offset of a source element, tap) for every tap that lands inside the source at
/// destination (d0, d1, d2).
template <typename Visit>
void for_each_tap(const bench_shape& s, const Box& src, const Box& kernel, const int64_t at[3],
                  const Visit& visit) {
    const bool transposed = s.op == BENCH_CONV_TRANSPOSE;
    for (int64_t tap = 0; tap < kernel.count(); ++tap) {
        const int64_t taps[3] = {tap / (kernel.extent[1] * kernel.extent[2]),
                                 tap / kernel.extent[2] % kernel.extent[1], tap % kernel.extent[2]};
        int64_t offset = 0;
        bool inside = true;
        for (int axis = 0; axis < 3 && inside; ++axis) {
            const bool used = axis >= 3 - s.spatial_rank;
            const int64_t stride = used ? s.stride : 1, padding = used ? s.padding : 0;
            const int64_t reach = taps[axis] * (used ? s.dilation : 1);
            int64_t position =
                transposed ? at[axis] + padding - reach : at[axis] * stride - padding + reach;
            if (transposed) {
                inside = position >= 0 && position % stride == 0;
                position /= stride;
            }
            inside = inside && position >= 0 && position < src.extent[axis];
            offset = offset * src.extent[axis] + position;
        }
        if (inside) visit(offset, tap);
    }
}

void convolution(const bench_shape& s, float* dst, const float* a, const float* b) {
    const bool transposed = s.op == BENCH_CONV_TRANSPOSE;
    const Box src = box_of(s.spatial, s.spatial_rank), kernel = box_of(s.kernel, s.spatial_rank);
    Box out;
    for (int axis = 3 - s.spatial_rank; axis < 3; ++axis) {
        const int64_t reach = s.dilation * (kernel.extent[axis] - 1);
        out.extent[axis] = transposed
                               ? (src.extent[axis] - 1) * s.stride - 2 * s.padding + reach + 1
                               : (src.extent[axis] + 2 * s.padding - reach - 1) / s.stride + 1;
    }
    const int64_t in_group = s.in_channels / s.groups, out_group = s.out_channels / s.groups;
    for (int64_t n = 0; n < s.batch; ++n)
        for (int64_t co = 0; co < s.out_channels; ++co)
            for (int64_t position = 0; position < out.count(); ++position) {
                const int64_t at[3] = {position / (out.extent[1] * out.extent[2]),
                                       position / out.extent[2] % out.extent[1],
                                       position % out.extent[2]};
                const int64_t group = co / out_group;
                double sum = 0;
                for_each_tap(s, src, kernel, at, [&](int64_t offset, int64_t tap) {
                    for (int64_t c = 0; c < in_group; ++c) {
                        const int64_t ci = group * in_group + c;
                        const int64_t w =
                            transposed ? (ci * out_group + co % out_group) : (co * in_group + c);
                        sum += double{a[(n * s.in_channels + ci) * src.count() + offset]} *
                               double{b[w * kernel.count() + tap]};
                    }
                });
                *dst++ = static_cast<float>(sum);
            }
}

void softmax(const bench_shape& s, float* dst, const float* a) {
    for (int64_t row = 0; row < s.rows; ++row, dst += s.columns, a += s.columns) {
        const double largest = *std::max_element(a, a + s.columns);
        double sum = 0;
        for (int64_t j = 0; j < s.columns; ++j) sum += std::exp(a[j] - largest);
        for (int64_t j = 0; j < s.columns; ++j)
            dst[j] = static_cast<float>(std::exp(a[j] - largest) / sum);
    }
}

void norm(const bench_shape& s, float* dst, const float* a) {
    for (int64_t batch = 0; batch < s.batch; ++batch, a += s.m * s.n) {
        double sum = 0;
        for (int64_t i = 0; i < s.m * s.n; ++i) sum += double{a[i]} * double{a[i]};
        dst[batch] = static_cast<float>(std::sqrt(sum));
    }
}

}  // namespace

void compute_reference(const bench_shape& shape, float* dst, const float* a, const float* b,
                       const float* bias) {
    switch (shape.op) {
        case BENCH_LINEAR:
        case BENCH_GEMM:
        case BENCH_BMM: products(shape, dst, a, b, bias); return;
        case BENCH_CONV:
        case BENCH_CONV_TRANSPOSE: convolution(shape, dst, a, b); return;
        case BENCH_SOFTMAX: softmax(shape, dst, a); return;
        case BENCH_NORM: norm(shape, dst, a); return;
    }
}

}  // namespace whet::bench
