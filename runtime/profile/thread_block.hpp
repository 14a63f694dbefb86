// SPDX-License-Identifier: Apache-2.0
// What each calling thread owns: call counters, a ring of samples, scratch; no cache line is shared
// on a hit.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <whet/whet.h>

namespace whet::runtime {

struct Record;

/// One thread's view of one site. Written by its thread only.
struct SiteCounter {
    std::atomic<uint64_t> calls;  ///< relaxed; the tuner sums it over the threads
    uint32_t countdown;           ///< calls until the next sample; 0: this call is one
    uint32_t samples;
};

enum class SampleKind : uint32_t {
    timed,       ///< ns of one call; record null: of the original
    wants_pack,  ///< a frozen operand at `pointer` has no packed copy for the site's record
    wrong,       ///< a check found `record` wrong; it was taken out already
};

struct Sample {
    whet_site* site;
    const Record* record;
    const void* pointer;
    float ns;
    SampleKind kind;
};

/// Blocks are made when a thread first calls and reused after it ended; never freed.
struct alignas(64) ThreadBlock {
    static constexpr uint32_t kRing =
        256;  // samples between two visits of the tuner, about 20 ms apart

    SiteCounter* counters = nullptr;  ///< one per possible site, zero pages until touched
    std::byte* scratch = nullptr;     ///< 64-byte aligned, grows only
    size_t scratch_bytes = 0;
    /// Odd while the thread runs a record with packed operands (see FrozenRegistry::reclaim).
    std::atomic<uint32_t> packed_calls{0};
    uint32_t random = 0x9e3779b9u;
    /// Of the call that the thread is in; null: it runs alone.
    const whet_executor* executor = nullptr;

    alignas(64) std::atomic<uint32_t> head{0};  ///< written by the thread
    Sample ring[kRing];
    alignas(64) std::atomic<uint32_t> tail{0};  ///< written by the tuner
    std::byte* save = nullptr;                  ///< room for a copy of dst while a call is checked
    size_t save_bytes = 0;
    ThreadBlock* next = nullptr;  ///< of the list of all blocks
    std::atomic<bool> taken{true};

    /// Drops the sample when the ring is full.
    void push(const Sample& sample) noexcept {
        const uint32_t at = head.load(std::memory_order_relaxed);
        if (at - tail.load(std::memory_order_acquire) >= kRing) return;
        ring[at % kRing] = sample;
        head.store(at + 1, std::memory_order_release);
    }
    /// By the tuner only.
    bool pop(Sample& sample) noexcept {
        const uint32_t at = tail.load(std::memory_order_relaxed);
        if (at == head.load(std::memory_order_acquire)) return false;
        sample = ring[at % kRing];
        tail.store(at + 1, std::memory_order_release);
        return true;
    }
    uint32_t next_random() noexcept {
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        return random;
    }
    /// Scratch of at least `bytes`, or null when the system gives none.
    std::byte* scratch_of(size_t bytes) noexcept {
        return bytes <= scratch_bytes ? scratch : grow(scratch, scratch_bytes, bytes);
    }
    std::byte* save_of(size_t bytes) noexcept {
        return bytes <= save_bytes ? save : grow(save, save_bytes, bytes);
    }

private:
    std::byte* grow(std::byte*& memory, size_t& have, size_t bytes) noexcept;
};

/// The calling thread's block, or null before its first call. Initial-exec: one load from the
/// thread pointer.
extern constinit thread_local ThreadBlock* current_block __attribute__((tls_model("initial-exec")));

/// Makes (or reuses) the calling thread's block; null when memory is out. site_capacity: counters
/// per block.
ThreadBlock* make_block(uint32_t site_capacity) noexcept;
/// All blocks that ever were: follow `next`. Blocks are only ever added in front.
ThreadBlock* first_block() noexcept;

}  // namespace whet::runtime
