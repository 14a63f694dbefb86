// SPDX-License-Identifier: Apache-2.0
// Birth, reuse and growth of thread blocks.
#include "runtime/profile/thread_block.hpp"

#include <pthread.h>
#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace whet::runtime {

constinit thread_local ThreadBlock* current_block = nullptr;

namespace {

std::atomic<ThreadBlock*> all_blocks{nullptr};
pthread_key_t end_key;
pthread_once_t end_key_once = PTHREAD_ONCE_INIT;

void release_block(void* block) {
    current_block = nullptr;
    static_cast<ThreadBlock*>(block)->taken.store(false, std::memory_order_release);
}

void make_end_key() { pthread_key_create(&end_key, release_block); }

ThreadBlock* reuse_block() noexcept {
    for (ThreadBlock* block = first_block(); block; block = block->next) {
        bool expected = false;
        if (block->taken.compare_exchange_strong(expected, true, std::memory_order_acquire))
            return block;
    }
    return nullptr;
}

}  // namespace

ThreadBlock* make_block(uint32_t site_capacity) noexcept {
    pthread_once(&end_key_once, make_end_key);
    ThreadBlock* block = reuse_block();
    if (!block) {
        void* const memory = std::aligned_alloc(alignof(ThreadBlock), sizeof(ThreadBlock));
        if (!memory) return nullptr;
        block = new (memory) ThreadBlock;
        void* const counters =
            ::mmap(nullptr, sizeof(SiteCounter) * site_capacity, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (counters == MAP_FAILED) {
            std::free(memory);
            return nullptr;
        }
        block->counters = static_cast<SiteCounter*>(counters);
        block->random ^= static_cast<uint32_t>(reinterpret_cast<uintptr_t>(counters) >> 12);
        ThreadBlock* first = all_blocks.load(std::memory_order_relaxed);
        do {
            block->next = first;
        } while (!all_blocks.compare_exchange_weak(first, block, std::memory_order_release,
                                                   std::memory_order_relaxed));
    }
    pthread_setspecific(end_key, block);
    current_block = block;
    return block;
}

ThreadBlock* first_block() noexcept { return all_blocks.load(std::memory_order_acquire); }

std::byte* ThreadBlock::grow(std::byte*& memory, size_t& have, size_t bytes) noexcept {
    constexpr size_t kStep = 64 * 1024;  // bytes: few growths, little waste
    const size_t rounded = (bytes + kStep - 1) / kStep * kStep;
    auto* const fresh = static_cast<std::byte*>(std::aligned_alloc(64, rounded));
    if (!fresh) return nullptr;
    std::free(memory);
    memory = fresh;
    have = rounded;
    return fresh;
}

}  // namespace whet::runtime
