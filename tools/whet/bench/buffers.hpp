// SPDX-License-Identifier: Apache-2.0
// The operands of a case: warm activations, and weights in enough copies that none is in the
// last-level cache.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "tools/whet/bench/case.hpp"

namespace whet::bench {

struct FreeDeleter {
    void operator()(void* pointer) const;
};
using Floats = std::unique_ptr<float[], FreeDeleter>;

/// `count` floats in [-1, 1) from a seed, 64-byte aligned. Throws std::bad_alloc.
Floats random_floats(int64_t count, uint64_t seed);

/// Where an operand begins within its page, in bytes: 0 in the first layout, then such multiples
/// of 64 as a generator draws. Below kLayoutSlack, which every operand has behind it.
constexpr size_t kLayoutSlack = 4096;
size_t page_offset(uint32_t layout, uint32_t operand);

/// How many copies of `weight_bytes` a rotation needs: together 1.25 x the last-level cache, at
/// most 1 GiB and 2047 copies (weights that small cost nothing to load, beside the call that uses
/// them), at least 3. An odd number: two sides that take turns have every copy equally often.
int64_t rotation_copies(double weight_bytes, double last_level_bytes);

/// Weights shared by the cases of a family; frozen as long as this lives when asked. The copies lie
/// at different places within their pages.
class Weights {
public:
    Weights(const Case& one, double last_level_bytes, bool frozen);
    ~Weights();
    Weights(const Weights&) = delete;
    Weights& operator=(const Weights&) = delete;
    const std::vector<const float*>& copies() const { return pointers_; }
    const float* bias() const { return bias_.get(); }

private:
    std::vector<Floats> storage_;
    std::vector<const float*> pointers_;
    Floats bias_;
    bool frozen_ = false;
};

/// Reads a line of every 64 bytes, so that the operand is as warm as its size allows.
void touch(const float* data, int64_t count);

}  // namespace whet::bench
