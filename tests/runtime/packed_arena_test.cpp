// SPDX-License-Identifier: Apache-2.0
// Pieces of the packed arena: disjoint, aligned, given back and found again.
#include "runtime/dispatch/packed_arena.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace whet::runtime {
namespace {

TEST(PackedArena, PiecesStayDisjointOverRandomUse) {
    constexpr unsigned kSeed = 11;
    SCOPED_TRACE(kSeed);
    std::mt19937 random(kSeed);
    PackedArena arena;
    struct Piece {
        uint8_t* memory;
        size_t bytes;
        uint8_t mark;
    };
    std::vector<Piece> pieces;
    for (int step = 0; step < 2000; ++step) {
        if (pieces.empty() || random() % 3 != 0) {
            const size_t bytes = 1 + random() % (random() % 8 == 0 ? 3u << 20 : 20000u);
            auto* const memory = static_cast<uint8_t*>(arena.allocate(bytes));
            ASSERT_NE(memory, nullptr);
            ASSERT_EQ(reinterpret_cast<uintptr_t>(memory) % 4096, 0u);
            const auto mark = static_cast<uint8_t>(step);
            std::memset(memory, mark, std::min<size_t>(bytes, 64));
            memory[bytes - 1] = mark;
            pieces.push_back({memory, bytes, mark});
            continue;
        }
        const size_t at = random() % pieces.size();
        const Piece piece = pieces[at];
        ASSERT_EQ(piece.memory[0], piece.mark);
        ASSERT_EQ(piece.memory[piece.bytes - 1], piece.mark);
        arena.release(piece.memory, piece.bytes);
        pieces.erase(pieces.begin() + static_cast<int64_t>(at));
    }
    for (const Piece& piece : pieces) EXPECT_EQ(piece.memory[piece.bytes - 1], piece.mark);
}

TEST(PackedArena, ReusesWhatWasReleasedWhole) {
    PackedArena arena;
    void* const first = arena.allocate(1 << 20);
    void* const second = arena.allocate(1 << 20);
    arena.release(first, 1 << 20);
    arena.release(second, 1 << 20);
    EXPECT_EQ(arena.allocate(2 << 20), first);
}

TEST(PackedArena, TakesMoreThanAChunk) {
    PackedArena arena;
    auto* const memory = static_cast<uint8_t*>(arena.allocate(100u << 20));
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % (2u << 20), 0u);
    memory[(100u << 20) - 1] = 1;
    arena.release(memory, 100u << 20);
}

}  // namespace
}  // namespace whet::runtime
