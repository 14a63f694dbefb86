// SPDX-License-Identifier: Apache-2.0
// Tests of guarded memory and of the code arena.
#include "runtime/forge/guarded_buffer.hpp"

#include <cstring>

#include <gtest/gtest.h>

namespace whet::runtime::forge {
namespace {

TEST(GuardedBuffer, FaultsOnTheByteAfterAndBefore) {
    for (const size_t bytes : {1u, 4u, 4095u, 4096u, 4097u, 10000u}) {
        auto end = GuardedBuffer::make(bytes, Edge::end, true);
        ASSERT_TRUE(end);
        std::memset(end->data(), 1, bytes);
        EXPECT_DEATH(*reinterpret_cast<volatile char*>(end->data() + bytes) = 1, "") << bytes;
        auto start = GuardedBuffer::make(bytes, Edge::start, true);
        std::memset(start->data(), 1, bytes);
        EXPECT_DEATH(*reinterpret_cast<volatile char*>(start->data() - 1) = 1, "") << bytes;
    }
}

TEST(GuardedBuffer, CanariesShowWritesThatDoNotFault) {
    for (const bool guarded : {true, false}) {
        auto buffer = GuardedBuffer::make(100, Edge::end, guarded);
        EXPECT_TRUE(buffer->canary_intact());
        std::memset(buffer->data(), 0, 100);
        EXPECT_TRUE(buffer->canary_intact());
        buffer->data()[-1] = std::byte{0};
        EXPECT_FALSE(buffer->canary_intact());
    }
    auto open = GuardedBuffer::make(100, Edge::end, false);
    open->data()[100] = std::byte{0};  // no fault where a fault would be the program's
    EXPECT_FALSE(open->canary_intact());
}

TEST(GuardedBuffer, ReadOnlyFaultsOnWrites) {
    auto buffer = GuardedBuffer::make(64, Edge::end, true);
    buffer->protect(true);
    EXPECT_EQ(static_cast<int>(buffer->data()[0]), 0);
    EXPECT_DEATH(*reinterpret_cast<volatile char*>(buffer->data()) = 1, "");
    buffer->protect(false);
    buffer->data()[0] = std::byte{1};
}

TEST(CodeArena, LoadsRunsAndBeginsAnewWhenFull) {
    CodeArena arena;
    jit::Blob blob;
    blob.bytes = {0xc7, 0x07, 42, 0, 0, 0, 0xc3};  // mov dword [rdi], 42; ret
    auto first = arena.load(1, blob);
    ASSERT_TRUE(first) << first.error().message;
    int value = 0;
    (*first)(&value);
    EXPECT_EQ(value, 42);
    EXPECT_EQ(*arena.load(1, blob), *first);
    blob.bytes.resize(64 * 1024, 0x90);
    uint64_t id = 2;
    while (arena.load(id, blob)) ++id;
    EXPECT_GT(id, 32u);
    arena.begin_group();
    EXPECT_FALSE(arena.holds(1));
    EXPECT_TRUE(arena.load(id, blob));
    blob.bytes.clear();
    EXPECT_FALSE(arena.load(999, blob));
}

}  // namespace
}  // namespace whet::runtime::forge
