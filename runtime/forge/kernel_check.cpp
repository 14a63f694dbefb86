// SPDX-License-Identifier: Apache-2.0
// A microkernel alone against its definition, on guarded operands of exactly the length it may
// reach.
#include "runtime/forge/kernel_check.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "base/hash.hpp"
#include "jit/portable.hpp"
#include "runtime/forge/guarded_buffer.hpp"
#include "runtime/forge/random.hpp"

namespace whet::runtime::forge {
namespace {

using base::Code;
using base::make_error;
using jit::MicrokernelSpec;

constexpr int kTileCalls = 16;
constexpr int kSoftmaxCalls = 6;
constexpr int64_t kMostSteps = 40;  // of the reduction: every remainder of an unrolling up to 8
constexpr float kPoison = -7.7e33f;

/// Operands of one call, each a guarded block of its own.
class Memory {
public:
    Memory(Random& random, Edge edge, bool guarded, bool exact)
        : random_(random), edge_(edge), guarded_(guarded), exact_(exact) {}

    /// A block of `count` values. Null when memory is refused.
    template <typename T>
    T* source(int64_t count) {
        auto made = GuardedBuffer::make(static_cast<size_t>(count) * sizeof(T), edge_, guarded_);
        if (!made) return nullptr;
        T* const values = made->values<T>();
        if (exact_) {
            fill_exact(values, static_cast<size_t>(count), random_);
        } else {
            fill_wild(values, static_cast<size_t>(count), random_, true);
            using Limits = std::numeric_limits<T>;
            const T strange[] = {Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity()};
            for (int64_t left = random_.below(4); left > 0; --left)
                values[random_.below(count)] = strange[random_.below(3)];
        }
        blocks_.push_back(std::move(*made));
        return values;
    }
    base::Result<void> intact() const {
        for (const GuardedBuffer& block : blocks_) {
            if (!block.canary_intact())
                return make_error(Code::verify_failed, "bytes around an operand were written");
        }
        return {};
    }
    void protect(const void* block) {
        for (GuardedBuffer& one : blocks_) {
            if (one.data() == block) one.protect(true);
        }
    }

private:
    Random& random_;
    Edge edge_;
    bool guarded_, exact_;
    std::vector<GuardedBuffer> blocks_;
};

template <typename T>
using Results = std::vector<std::span<T>>;

template <typename T>
std::vector<T> joined(const Results<T>& results) {
    std::vector<T> values;
    for (const std::span<T> result : results)
        values.insert(values.end(), result.begin(), result.end());
    return values;
}

template <typename T>
base::Result<void> compare(const MicrokernelSpec& spec, jit::MicrokernelFunction function,
                           const void* args, const Results<T>& results, const Memory& memory) {
    const std::vector<T> before = joined(results);
    jit::run_portable(spec, args);
    const std::vector<T> expected = joined(results);
    auto from = before.begin();
    for (const std::span<T> result : results) {
        std::copy_n(from, result.size(), result.begin());
        from += static_cast<std::ptrdiff_t>(result.size());
    }
    function(args);
    const std::vector<T> got = joined(results);
    for (size_t i = 0; i < got.size(); ++i) {
        if (same(got[i], expected[i])) continue;
        return make_error(Code::verify_failed,
                          "microkernel %s alone: element %zu: got %.*g, expected %.*g",
                          spec.print().c_str(), i, std::numeric_limits<T>::max_digits10,
                          static_cast<double>(got[i]), std::numeric_limits<T>::max_digits10,
                          static_cast<double>(expected[i]));
    }
    return memory.intact();
}

/// The counts and strides of call `number`; the first ones cover the classes of tails.
template <typename T>
jit::TileArgsOf<T> draw_tile(const MicrokernelSpec& spec, int number, Random& random,
                             std::vector<int64_t>& offsets) {
    const auto pick = [&random](int64_t low, int64_t high) {
        return low + random.below(high - low + 1);
    };
    const int64_t lanes = spec.lanes(), width = spec.vectors * lanes;
    const int64_t tails[] = {width, 1, width - 1, width - lanes + 1, width, lanes};
    jit::TileArgsOf<T> args = {};
    args.k = spec.taps == 2 ? 1 : number == 1 ? 0 : pick(1, kMostSteps);
    if (spec.vector == jit::VectorForm::transposed) args.k *= jit::kTransposedSteps;
    args.tiles = number < 2 ? 2 : pick(0, 3);
    args.lanes = number < 6 ? std::clamp<int64_t>(tails[number], 1, width) : pick(1, width);
    if (spec.vector == jit::VectorForm::transposed && number % 2 == 1)
        args.first_lane = pick(0, args.lanes - 1);
    args.taps = spec.taps ? pick(number < 6 ? 1 : 0, 3) : 1;
    args.start = number < 10 ? number % 5 : pick(jit::kStartZero, jit::kStartBiasRow);
    args.finish = pick(0, 1);
    const T alphas[] = {1, 1, T{-0.5f}, 2};
    args.alpha = alphas[pick(0, 3)];
    args.beta = pick(0, 1) != 0 ? 1 : -2;
    args.scalar_row = pick(0, 80);
    args.scalar_k =
        spec.scalar == jit::ScalarForm::packed ? pick(spec.rows, spec.rows + 9) : pick(0, 90);
    args.scalar_tile = pick(0, 100);
    args.vector_row = pick(0, 40);
    args.vector_k = pick(0, 90);
    args.vector_tile = pick(0, 50);
    args.dst_row = pick(width, width + 20);
    args.dst_tile = spec.rows * args.dst_row + pick(0, 5);
    args.bias_tile = pick(0, 9);
    args.panel_k = pick(lanes, 3 * lanes);
    offsets.clear();
    for (int64_t tap = 0; tap < 2 * args.taps; ++tap) offsets.push_back(pick(0, 60));
    args.tap_offsets = offsets.data();
    return args;
}

/// How many values of each operand a tile may reach.
struct Reach {
    int64_t scalar = 0, vector = 0, bias = 0, dst = 0, panel = 0;
};
template <typename T>
Reach reach_of(const MicrokernelSpec& spec, const jit::TileArgsOf<T>& args) {
    const int64_t width = spec.vectors * spec.lanes();
    const int64_t r = spec.rows - 1, t = std::max<int64_t>(args.tiles, 1) - 1,
                  i = std::max<int64_t>(args.k, 1) - 1;
    int64_t scalar_tap = 0, vector_tap = 0;
    for (int64_t tap = 0; spec.taps && tap < args.taps; ++tap) {
        scalar_tap = std::max(scalar_tap, args.tap_offsets[2 * tap]);
        vector_tap = std::max(vector_tap, args.tap_offsets[2 * tap + 1]);
    }
    Reach reach;
    reach.scalar = t * args.scalar_tile + scalar_tap + 1;
    switch (spec.scalar) {
        case jit::ScalarForm::rows_strided: reach.scalar += r * args.scalar_row + i; break;
        case jit::ScalarForm::packed: reach.scalar += r + i * args.scalar_k; break;
        case jit::ScalarForm::general:
            reach.scalar += r * args.scalar_row + i * args.scalar_k;
            break;
        case jit::ScalarForm::uniform: reach.scalar += i * args.scalar_k; break;
    }
    reach.vector = t * args.vector_tile + vector_tap + (spec.masked_loads ? args.lanes : width);
    switch (spec.vector) {
        case jit::VectorForm::strided: reach.vector += i * args.vector_k; break;
        case jit::VectorForm::packed: reach.vector += i * width; break;
        case jit::VectorForm::row_strided:
            reach.vector += r * args.vector_row + i * args.vector_k;
            break;
        case jit::VectorForm::transposed:
            reach.vector += (width - 1) * (args.vector_row - 1) + i;
            break;
    }
    if (spec.packs) reach.panel = i * args.panel_k + width;
    reach.bias = args.start == jit::kStartBiasLane ? args.lanes : t * args.bias_tile + spec.rows;
    reach.dst = t * args.dst_tile + r * args.dst_row + args.lanes;
    return reach;
}

template <typename T>
base::Result<void> check_tile(const MicrokernelSpec& spec, jit::MicrokernelFunction function,
                              bool guarded, Random& random) {
    std::vector<int64_t> offsets;
    for (int number = 0; number < kTileCalls; ++number) {
        jit::TileArgsOf<T> args = draw_tile<T>(spec, number, random, offsets);
        const Reach reach = reach_of(spec, args);
        Memory memory(random, number % 4 < 2 ? Edge::end : Edge::start, guarded, number % 2 == 0);
        T* const scalar = memory.source<T>(reach.scalar);
        T* const vector = memory.source<T>(reach.vector);
        T* const bias = memory.source<T>(reach.bias);
        T* const dst = memory.source<T>(reach.dst);
        if (!scalar || !vector || !bias || !dst)
            return make_error(Code::out_of_budget, "no memory to check a microkernel");
        if (args.start != jit::kStartDst && args.start != jit::kStartScaled)
            std::fill_n(dst, reach.dst, T{kPoison});
        for (const T* const block : {scalar, vector, bias}) memory.protect(block);
        args.scalar = scalar;
        args.vector = vector;
        args.bias = bias;
        args.dst = dst;
        Results<T> results = {{dst, static_cast<size_t>(reach.dst)}};
        if (spec.packs) {
            args.panel = memory.source<T>(reach.panel);
            if (!args.panel)
                return make_error(Code::out_of_budget, "no memory to check a microkernel");
            std::fill_n(args.panel, reach.panel, T{kPoison});
            results.push_back({args.panel, static_cast<size_t>(reach.panel)});
        }
        WHET_TRY_VOID(compare(spec, function, &args, results, memory));
    }
    return {};
}

base::Result<void> check_softmax(const MicrokernelSpec& spec, jit::MicrokernelFunction function,
                                 bool guarded, Random& random) {
    const int64_t columns[kSoftmaxCalls] = {1, 7, 64, 65, 500, 8197};
    for (int number = 0; number < kSoftmaxCalls; ++number) {
        jit::SoftmaxArgs args = {};
        args.columns = columns[number];
        args.rows = 1 + random.below(3);
        args.src_row = args.columns + random.below(9);
        args.dst_row = args.columns + random.below(9);
        Memory memory(random, number % 4 < 2 ? Edge::end : Edge::start, guarded, number % 2 == 0);
        float* const src = memory.source<float>((args.rows - 1) * args.src_row + args.columns);
        const int64_t count = (args.rows - 1) * args.dst_row + args.columns;
        float* const dst = memory.source<float>(count);
        if (!src || !dst)
            return make_error(Code::out_of_budget, "no memory to check a microkernel");
        std::fill_n(dst, count, kPoison);
        memory.protect(src);
        args.src = src;
        args.dst = dst;
        const Results<float> results = {{dst, static_cast<size_t>(count)}};
        WHET_TRY_VOID(compare(spec, function, &args, results, memory));
    }
    return {};
}

}  // namespace

base::Result<void> check_microkernel(const MicrokernelSpec& spec, jit::MicrokernelFunction function,
                                     bool guarded, uint64_t seed) {
    Random random(base::hash_combine(seed, jit::hash_of(spec)));
    if (spec.kind == jit::MicrokernelKind::softmax)
        return check_softmax(spec, function, guarded, random);
    return spec.element == jit::Element::f64 ? check_tile<double>(spec, function, guarded, random)
                                             : check_tile<float>(spec, function, guarded, random);
}

}  // namespace whet::runtime::forge
