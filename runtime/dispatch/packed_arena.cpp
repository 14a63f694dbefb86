// SPDX-License-Identifier: Apache-2.0
// Chunks live as long as the process: other threads may hold addresses in them.
#include "runtime/dispatch/packed_arena.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace whet::runtime {

bool PackedArena::add_chunk(size_t bytes) {
    const size_t wanted = (std::max(bytes, kChunk) + kHugePage - 1) / kHugePage * kHugePage;
    void* const memory = ::mmap(nullptr, wanted + kHugePage, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return false;
    const auto address = reinterpret_cast<uintptr_t>(memory);
    const uintptr_t begin = (address + kHugePage - 1) / kHugePage * kHugePage;
    if (begin > address) ::munmap(memory, begin - address);
    const uintptr_t end = begin + wanted, mapped_end = address + wanted + kHugePage;
    if (mapped_end > end) ::munmap(reinterpret_cast<void*>(end), mapped_end - end);
    ::madvise(reinterpret_cast<void*>(begin), wanted, MADV_HUGEPAGE);
    chunks_.push_back({reinterpret_cast<std::byte*>(begin), wanted, {{0, wanted}}});
    return true;
}

void* PackedArena::allocate(size_t bytes) {
    const size_t size = rounded(std::max<size_t>(bytes, 1));
    for (int attempt = 0; attempt < 2; ++attempt) {
        for (Chunk& chunk : chunks_) {
            const auto fits = [&](const auto& piece) { return piece.second >= size; };
            const auto piece = std::find_if(chunk.free.begin(), chunk.free.end(), fits);
            if (piece == chunk.free.end()) continue;
            const auto [offset, free_bytes] = *piece;
            chunk.free.erase(piece);
            if (free_bytes > size) chunk.free.emplace(offset + size, free_bytes - size);
            return chunk.begin + offset;
        }
        if (!add_chunk(size)) return nullptr;
    }
    return nullptr;
}

void PackedArena::release(void* memory, size_t bytes) noexcept {
    auto* const at = static_cast<std::byte*>(memory);
    for (Chunk& chunk : chunks_) {
        if (at < chunk.begin || at >= chunk.begin + chunk.bytes) continue;
        size_t begin = static_cast<size_t>(at - chunk.begin),
               end = begin + rounded(std::max<size_t>(bytes, 1));
        ::madvise(at, end - begin, MADV_DONTNEED);
        auto next = chunk.free.lower_bound(begin);
        if (next != chunk.free.end() && next->first == end) {
            end += next->second;
            next = chunk.free.erase(next);
        }
        if (next != chunk.free.begin()) {
            const auto before = std::prev(next);
            if (before->first + before->second == begin) {
                begin = before->first;
                chunk.free.erase(before);
            }
        }
        chunk.free.emplace(begin, end - begin);
        return;
    }
}

}  // namespace whet::runtime
