// SPDX-License-Identifier: Apache-2.0
// Executable memory: a file mapped twice, filled through its writable view, never unmapped, never
// sealed again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.hpp"
#include "jit/microkernel.hpp"
#include "runtime/code_slab/perf_map.hpp"

namespace whet::runtime {

/// Holds generated code. Published code stays callable as long as the process, in its forked
/// children too; a child never writes its parent's slab but opens one of its own. Equal blobs share
/// one copy. Thread-safe.
class CodeSlab {
public:
    /// With `perf_map`, code is named in a perf map, and each blob has pages of its own that belong
    /// to no file: in those alone does perf look at its map.
    explicit CodeSlab(size_t budget_bytes, bool perf_map = false)
        : budget_bytes_(budget_bytes), perf_map_wanted_(perf_map), dual_failed_(perf_map) {}

    /// Copies a blob to executable memory (64-byte aligned) and returns its entry.
    /// `name` is for the perf map; the first one counts.
    /// out_of_budget: the budget is used up; unsupported: the system gives no executable memory.
    base::Result<jit::MicrokernelFunction> publish(const jit::Blob& blob,
                                                   std::string_view name = {});

    /// Whether the system gives executable memory. Maps the first chunk, so that a program which
    /// gives up the right to more later on is tuned as far as that reaches.
    bool available();

    size_t used_bytes() const noexcept { return used_total_; }
    /// Child of a fork, where another thread may have been in the middle of publishing: forgets the
    /// writable view and the index; what was published stays callable.
    void after_fork_in_child() noexcept;

private:
    struct Published {
        std::vector<uint8_t> bytes;
        uint32_t entry;
        jit::MicrokernelFunction function;
    };

    base::Result<uint8_t*> place(const uint8_t* bytes, size_t size);
    base::Result<void> open_chunk(size_t least_bytes);
    base::Result<uint8_t*> place_sealed(const uint8_t* bytes, size_t size);
    base::Result<uint8_t*> map_sealed(const uint8_t* bytes, size_t size, size_t mapped);

    const size_t budget_bytes_;
    const bool perf_map_wanted_;
    std::mutex mutex_;
    uint8_t* writable_ = nullptr;    ///< the current chunk's writable view
    uint8_t* executable_ = nullptr;  ///< its executable view
    size_t chunk_bytes_ = 0, used_ = 0, used_total_ = 0;
    bool dual_failed_, denied_ = false;
    PerfMap perf_map_;
    using PublishedBlobs = std::unordered_multimap<uint64_t, Published>;
    PublishedBlobs* published_ = new PublishedBlobs;  ///< never destroyed: its code is in use
};

}  // namespace whet::runtime
