// SPDX-License-Identifier: Apache-2.0
#include "tools/whet/bench/buffers.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "tools/whet/bench/statistics.hpp"

namespace whet::bench {
namespace {

constexpr double kRotationOverCache = 1.25;
constexpr double kMostRotationBytes = 1024.0 * 1024 * 1024;
constexpr int64_t kMostCopies = 2047;
constexpr size_t kLine = 64;

Floats allocate_floats(int64_t count) {
    const size_t bytes = (static_cast<size_t>(count) * sizeof(float) + 63) / 64 * 64;
    void* pointer = std::aligned_alloc(64, std::max<size_t>(bytes, 64));
    if (!pointer) throw std::bad_alloc();
    return Floats(static_cast<float*>(pointer));
}

}  // namespace

void FreeDeleter::operator()(void* pointer) const { std::free(pointer); }

Floats random_floats(int64_t count, uint64_t seed) {
    Floats data = allocate_floats(count);
    Random random(seed);
    for (int64_t i = 0; i < count; ++i) data[static_cast<size_t>(i)] = random.uniform();
    return data;
}

int64_t rotation_copies(double weight_bytes, double last_level_bytes) {
    const double wanted = std::min(kRotationOverCache * last_level_bytes, kMostRotationBytes);
    return std::clamp<int64_t>(static_cast<int64_t>(wanted / weight_bytes) + 1, 3, kMostCopies) | 1;
}

size_t page_offset(uint32_t layout, uint32_t operand) {
    if (layout == 0) return 0;
    return Random(layout * 64 + operand).below(kLayoutSlack / kLine) * kLine;
}

Weights::Weights(const Case& one, double last_level_bytes, bool frozen)
    : frozen_(frozen && one.has_weights()) {
    const Extents extents = one.b_extents();
    if (extents.empty()) {
        pointers_.push_back(nullptr);
        return;
    }
    const int64_t count = count_of(extents);
    const auto bytes = static_cast<size_t>(count) * sizeof(float);
    const int64_t copies =
        one.has_weights() ? rotation_copies(static_cast<double>(bytes), last_level_bytes) : 1;
    const Floats first = random_floats(count, 2);
    for (int64_t copy = 0; copy < copies; ++copy) {
        storage_.push_back(
            allocate_floats(count + static_cast<int64_t>(kLayoutSlack / sizeof(float))));
        const size_t offset = page_offset(static_cast<uint32_t>(copy), WHET_B);
        float* const place = storage_.back().get() + offset / sizeof(float);
        std::memcpy(place, first.get(), bytes);
        pointers_.push_back(place);
        if (frozen_) whet_freeze(pointers_.back(), bytes);
    }
    if (!one.has_bias()) return;
    bias_ = random_floats(one.shape.n, 3);
    if (frozen_) whet_freeze(bias_.get(), static_cast<size_t>(one.shape.n) * sizeof(float));
}

Weights::~Weights() {
    if (!frozen_) return;
    for (const float* pointer : pointers_) whet_thaw(pointer);
    if (bias_) whet_thaw(bias_.get());
}

void touch(const float* data, int64_t count) {
    float sum = 0;
    for (int64_t i = 0; i < count; i += 16) sum += data[i];
    asm volatile("" : : "x"(sum));
}

}  // namespace whet::bench
