// SPDX-License-Identifier: Apache-2.0
// Peers "torch" (eager PyTorch in inference mode) and "mkl-packed" (MKL's own packed product,
// exported by LibTorch).
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/conv1d.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/conv3d.h>
#include <ATen/ops/conv_transpose2d.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/softmax.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/InferenceMode.h>
#include <torch/headeronly/version.h>

#include "tools/whet/bench/peer.h"

// MKL's packed product; LibTorch exports it without a header.
extern "C" {
size_t cblas_sgemm_pack_get_size(int identifier, int m, int n, int k);
void cblas_sgemm_pack(int layout, int identifier, int transpose, int m, int n, int k, float alpha,
                      const float* source, int leading, float* packed);
void cblas_sgemm_compute(int layout, int transpose_a, int transpose_b, int m, int n, int k,
                         const float* a, int lda, const float* b, int ldb, float beta, float* c,
                         int ldc);
}

namespace {

constexpr int kRowMajor = 101, kNoTrans = 111, kTrans = 112, kPacked = 151, kMatrixB = 162;

int thread_count = 1;

/// While set, the calling thread's next allocation of exactly `bytes` gets `pointer`: this is how
/// an operator without an out= form writes into the caller's destination.
struct Destination {
    void* pointer = nullptr;
    size_t bytes = 0;
    bool taken = false;
};
thread_local Destination destination;

void keep(void*) {}
c10::DeleterFnPtr base_deleter = nullptr;
/// For raw_deallocate: oneDNN's scratch memory may have been the one that took the destination.
void delete_unless_destination(void* pointer) {
    if (pointer && pointer == destination.pointer) return;
    base_deleter(pointer);
}

/// LibTorch's own CPU allocator, but for the redirected destination.
class RedirectingAllocator final : public c10::Allocator {
public:
    explicit RedirectingAllocator(c10::Allocator* base) : base_(base) {
        base_deleter = base->raw_deleter();
    }
    c10::DataPtr allocate(size_t bytes) override {
        if (destination.pointer && !destination.taken && destination.bytes == bytes) {
            destination.taken = true;
            return {destination.pointer, destination.pointer, &keep,
                    c10::Device(c10::DeviceType::CPU)};
        }
        return base_->allocate(bytes);
    }
    c10::DeleterFnPtr raw_deleter() const override { return &delete_unless_destination; }
    void copy_data(void* dst, const void* src, size_t bytes) const override {
        std::memcpy(dst, src, bytes);
    }
    c10::Allocator* base() const { return base_; }

private:
    c10::Allocator* base_;
};

RedirectingAllocator* allocator = nullptr;

void say(char* error, size_t bytes, const std::string& text) {
    std::snprintf(error, bytes, "%s", text.c_str());
}

/// Gives every thread that computes the settings of the first one: LibTorch keeps them per thread.
void prepare_thread() {
    thread_local c10::InferenceMode inference_mode;
    thread_local bool prepared = false;
    if (prepared) return;
    prepared = true;
    at::set_num_threads(thread_count);
}

at::Tensor view(const float* data, at::IntArrayRef extents) {
    return at::from_blob(const_cast<float*>(data), extents, at::TensorOptions().dtype(at::kFloat));
}

std::vector<int64_t> with_spatial(int64_t first, int64_t second, const int64_t* spatial, int rank) {
    std::vector<int64_t> extents{first, second};
    extents.insert(extents.end(), spatial, spatial + rank);
    return extents;
}

std::vector<int64_t> extents_of_a(const bench_shape& s) {
    switch (s.op) {
        case BENCH_LINEAR:
        case BENCH_GEMM: return {s.m, s.k};
        case BENCH_BMM: return {s.batch, s.m, s.k};
        case BENCH_SOFTMAX: return {s.rows, s.columns};
        case BENCH_NORM: return {s.batch, s.m, s.n};
        default: return with_spatial(s.batch, s.in_channels, s.spatial, s.spatial_rank);
    }
}

std::vector<int64_t> extents_of_b(const bench_shape& s) {
    switch (s.op) {
        case BENCH_LINEAR: return {s.n, s.k};
        case BENCH_GEMM: return {s.k, s.n};
        case BENCH_BMM: return {s.batch, s.k, s.n};
        case BENCH_CONV:
            return with_spatial(s.out_channels, s.in_channels / s.groups, s.kernel, s.spatial_rank);
        case BENCH_CONV_TRANSPOSE:
            return with_spatial(s.in_channels, s.out_channels / s.groups, s.kernel, s.spatial_rank);
        default: return {};
    }
}

int64_t transposed_extent(const bench_shape& s, int axis) {
    return (s.spatial[axis] - 1) * s.stride - 2 * s.padding + s.dilation * (s.kernel[axis] - 1) + 1;
}

int64_t convolved_extent(const bench_shape& s, int axis) {
    return (s.spatial[axis] + 2 * s.padding - s.dilation * (s.kernel[axis] - 1) - 1) / s.stride + 1;
}

size_t dst_bytes(const bench_shape& s) {
    int64_t count = 0;
    switch (s.op) {
        case BENCH_LINEAR:
        case BENCH_GEMM: count = s.m * s.n; break;
        case BENCH_BMM: count = s.batch * s.m * s.n; break;
        case BENCH_SOFTMAX: count = s.rows * s.columns; break;
        case BENCH_NORM: count = s.batch; break;
        case BENCH_CONV:
        case BENCH_CONV_TRANSPOSE:
            count = s.batch * s.out_channels;
            for (int axis = 0; axis < s.spatial_rank; ++axis)
                count *=
                    s.op == BENCH_CONV ? convolved_extent(s, axis) : transposed_extent(s, axis);
    }
    return static_cast<size_t>(count) * sizeof(float);
}

at::Tensor compute(const bench_shape& s, const at::Tensor& a, const at::Tensor& b,
                   const at::Tensor& bias) {
    const std::vector<int64_t> stride(static_cast<size_t>(s.spatial_rank), s.stride);
    const std::vector<int64_t> padding(static_cast<size_t>(s.spatial_rank), s.padding);
    const std::vector<int64_t> dilation(static_cast<size_t>(s.spatial_rank), s.dilation);
    switch (s.op) {
        case BENCH_LINEAR: return at::linear(a, b, bias);
        case BENCH_GEMM: return at::mm(a, b);
        case BENCH_BMM: return at::bmm(a, b);
        case BENCH_SOFTMAX: return at::softmax(a, 1);
        case BENCH_NORM: return at::linalg_vector_norm(a, 2, at::IntArrayRef{1, 2});
        case BENCH_CONV:
            if (s.spatial_rank == 1)
                return at::conv1d(a, b, {}, stride, padding, dilation, s.groups);
            if (s.spatial_rank == 2)
                return at::conv2d(a, b, {}, stride, padding, dilation, s.groups);
            return at::conv3d(a, b, {}, stride, padding, dilation, s.groups);
        case BENCH_CONV_TRANSPOSE:
            return at::conv_transpose2d(a, b, {}, stride, padding, std::vector<int64_t>(2, 0),
                                        s.groups, dilation);
    }
    return {};
}

}  // namespace

struct bench_runnable {
    bool packed = false;
    bench_shape shape{};
    size_t dst_bytes = 0;
    at::Tensor a, bias;
    std::vector<at::Tensor> b;
    const float* a_data = nullptr;
    const float* bias_data = nullptr;
    std::vector<float*> panels;
    ~bench_runnable() {
        for (float* panel : panels) std::free(panel);
    }
};

namespace {

int start(int threads, char* error, size_t error_bytes) try {
    thread_count = threads;
    at::set_num_threads(threads);
    at::globalContext().setUserEnabledMkldnn(true);
    if (!allocator) {
        allocator = new RedirectingAllocator(c10::GetCPUAllocator());  // lives as long as LibTorch
        c10::SetCPUAllocator(allocator, 1);
    }
    prepare_thread();
    return 0;
} catch (const std::exception& failure) {
    say(error, error_bytes, failure.what());
    return 1;
}

const char* version_text() { return "torch " TORCH_VERSION; }

void* allocate(size_t bytes) { return allocator->base()->raw_allocate(bytes); }
void release(void* pointer, size_t) { allocator->base()->raw_deallocate(pointer); }

void packed_product(const bench_shape& s, float* dst, const float* a, const float* panel,
                    const float* bias) {
    const int m = static_cast<int>(s.m), n = static_cast<int>(s.n), k = static_cast<int>(s.k);
    for (int row = 0; bias && row < m; ++row)
        std::memcpy(dst + int64_t{row} * n, bias, sizeof(float) * s.n);
    cblas_sgemm_compute(kRowMajor, kNoTrans, kPacked, m, n, k, a, k, panel,
                        s.op == BENCH_LINEAR ? k : n, bias ? 1.0f : 0.0f, dst, n);
}

/// Packs every copy of the weights, as the owner of constant weights would once.
bool pack(bench_runnable& runnable, const float* const* b, int64_t copies) {
    const bench_shape& s = runnable.shape;
    const int m = static_cast<int>(s.m), n = static_cast<int>(s.n), k = static_cast<int>(s.k);
    const bool transposed = s.op == BENCH_LINEAR;
    const size_t bytes = (cblas_sgemm_pack_get_size(kMatrixB, m, n, k) + 63) / 64 * 64;
    for (int64_t copy = 0; copy < copies; ++copy) {
        auto* panel = static_cast<float*>(std::aligned_alloc(64, bytes));
        if (!panel) return false;
        runnable.panels.push_back(panel);
        cblas_sgemm_pack(kRowMajor, kMatrixB, transposed ? kTrans : kNoTrans, m, n, k, 1.0f,
                         b[copy], transposed ? k : n, panel);
    }
    return true;
}

bench_runnable* make(const char* name, const bench_shape* shape, const float* a,
                     const float* const* b, int64_t copies, const float* bias, char* error,
                     size_t error_bytes) try {
    prepare_thread();
    auto runnable = std::make_unique<bench_runnable>();
    runnable->shape = *shape;
    runnable->dst_bytes = dst_bytes(*shape);
    runnable->a_data = a;
    runnable->bias_data = bias;
    if (std::string_view(name) == "mkl-packed") {
        if (shape->op != BENCH_LINEAR && shape->op != BENCH_GEMM) {
            say(error, error_bytes, "mkl-packed computes linear and gemm only");
            return nullptr;
        }
        runnable->packed = true;
        if (!pack(*runnable, b, copies)) {
            say(error, error_bytes, "no memory for packed weights");
            return nullptr;
        }
        return runnable.release();
    }
    runnable->a = view(a, extents_of_a(*shape));
    if (bias) runnable->bias = view(bias, shape->n);
    const std::vector<int64_t> extents = extents_of_b(*shape);
    for (int64_t copy = 0; copy < copies; ++copy)
        runnable->b.push_back(extents.empty() ? at::Tensor() : view(b[copy], extents));
    return runnable.release();
} catch (const std::exception& failure) {
    say(error, error_bytes, failure.what());
    return nullptr;
}

void run(bench_runnable* runnable, int64_t copy) {
    if (!runnable->packed) {
        compute(runnable->shape, runnable->a, runnable->b[static_cast<size_t>(copy)],
                runnable->bias);
        return;
    }
    const size_t bytes = dst_bytes(runnable->shape);
    auto* dst = static_cast<float*>(allocate(bytes));
    packed_product(runnable->shape, dst, runnable->a_data,
                   runnable->panels[static_cast<size_t>(copy)], runnable->bias_data);
    release(dst, bytes);
}

void run_at(bench_runnable* runnable, int64_t copy, float* dst) {
    if (runnable->packed) {
        packed_product(runnable->shape, dst, runnable->a_data,
                       runnable->panels[static_cast<size_t>(copy)], runnable->bias_data);
        return;
    }
    destination = {dst, runnable->dst_bytes, false};
    compute(runnable->shape, runnable->a, runnable->b[static_cast<size_t>(copy)], runnable->bias);
    destination = {};
}

void run_into(bench_runnable* runnable, float* dst, const float* a, const float* b,
              const float* bias) {
    prepare_thread();
    const bench_shape& s = runnable->shape;
    const std::vector<int64_t> b_extents = extents_of_b(s);
    const at::Tensor first = view(a, extents_of_a(s));
    const at::Tensor second = b_extents.empty() ? at::Tensor() : view(b, b_extents);
    const at::Tensor third = bias ? view(bias, s.n) : at::Tensor();
    const size_t bytes = dst_bytes(s);
    destination = {dst, bytes, false};
    const at::Tensor result = compute(s, first, second, third);
    destination = {};
    if (result.const_data_ptr() != dst)
        std::memcpy(dst, result.contiguous().const_data_ptr(), bytes);
}

void time_into(bench_runnable* runnable, float* dst, const float* a, const float* b,
               const float* bias) {
    constexpr size_t kMostPrepared = 256;  // operands of a few contests
    struct Prepared {
        at::Tensor a, b, bias;
    };
    using Key = std::array<const void*, 4>;
    thread_local std::map<Key, Prepared> known;
    prepare_thread();
    const bench_shape& s = runnable->shape;
    if (known.size() > kMostPrepared) known.clear();
    const auto [entry, fresh] = known.try_emplace(Key{runnable, a, b, bias});
    if (fresh) {
        const std::vector<int64_t> b_extents = extents_of_b(s);
        entry->second = {view(a, extents_of_a(s)),
                         b_extents.empty() ? at::Tensor() : view(b, b_extents),
                         bias ? view(bias, s.n) : at::Tensor()};
    }
    destination = {dst, dst_bytes(s), false};
    compute(s, entry->second.a, entry->second.b, entry->second.bias);
    destination = {};
}

void move_a(bench_runnable* runnable, const float* a) {
    prepare_thread();
    runnable->a_data = a;
    if (!runnable->packed) runnable->a = view(a, extents_of_a(runnable->shape));
}

void destroy(bench_runnable* runnable) { delete runnable; }

}  // namespace

extern "C" __attribute__((visibility("default"))) const bench_peer* bench_peer_module(void) {
    static const bench_peer peer{BENCH_PEER_VERSION,
                                 "torch,mkl-packed",
                                 start,
                                 version_text,
                                 allocate,
                                 release,
                                 make,
                                 run,
                                 run_at,
                                 run_into,
                                 time_into,
                                 move_a,
                                 destroy};
    return &peer;
}
