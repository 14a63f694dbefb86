// SPDX-License-Identifier: Apache-2.0
// Memory of packed operands: pieces of large mappings that the kernel may back with huge pages.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

namespace whet::runtime {

/// First fit over chunks aligned to huge pages. A packed weight is read once a call from end to
/// end, so page walks and the prefetcher's stop at every 4 KiB are a fifth of its time; small
/// weights share a huge page. Not thread-safe.
class PackedArena {
public:
    PackedArena() = default;
    PackedArena(const PackedArena&) = delete;
    PackedArena& operator=(const PackedArena&) = delete;

    /// Zeroed or not, 4 KiB aligned; null where the system refuses.
    void* allocate(size_t bytes);
    /// Gives the piece back; its whole pages go to the system.
    void release(void* memory, size_t bytes) noexcept;

private:
    struct Chunk {
        std::byte* begin;
        size_t bytes;
        std::map<size_t, size_t> free;  ///< offset -> bytes
    };
    static size_t rounded(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }
    bool add_chunk(size_t bytes);

    static constexpr size_t kPage = 4096;
    static constexpr size_t kHugePage = 2u << 20;
    static constexpr size_t kChunk = 32u
                                     << 20;  ///< reserved at once; memory is taken as it is touched
    std::vector<Chunk> chunks_;
};

}  // namespace whet::runtime
