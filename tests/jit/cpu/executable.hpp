// SPDX-License-Identifier: Apache-2.0
// Shared by the tests and benches of microkernels: guarded buffers and executable copies of blobs.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

#include "jit/microkernel.hpp"

namespace whet::jit::cpu {

/// `count` values whose end (or, `at_start`, whose beginning) touches an unmapped page.
template <typename T = float>
class GuardedBuffer {
public:
    explicit GuardedBuffer(std::size_t count, bool at_start = false) : count_(count) {
        const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        const std::size_t body = (count * sizeof(T) + page - 1) / page * page;
        mapped_bytes_ = body + 2 * page;
        base_ = static_cast<uint8_t*>(
            mmap(nullptr, mapped_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        mprotect(base_ + page, body, PROT_READ | PROT_WRITE);
        data_ = reinterpret_cast<T*>(base_ + page + (at_start ? 0 : body - count * sizeof(T)));
    }
    GuardedBuffer(const GuardedBuffer&) = delete;
    GuardedBuffer& operator=(const GuardedBuffer&) = delete;
    ~GuardedBuffer() { munmap(base_, mapped_bytes_); }

    T* data() { return data_; }
    std::size_t size() const { return count_; }
    void fill_random(std::mt19937& random) {
        std::uniform_real_distribution<T> values(-1, 1);
        for (std::size_t i = 0; i < count_; ++i) data_[i] = values(random);
    }

private:
    std::size_t count_;
    std::size_t mapped_bytes_ = 0;
    uint8_t* base_ = nullptr;
    T* data_ = nullptr;
};

/// A blob copied to executable memory of its own.
class Executable {
public:
    explicit Executable(const Blob& blob) : bytes_(blob.bytes.size()), entry_(blob.entry) {
        base_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        std::memcpy(base_, blob.bytes.data(), bytes_);
        mprotect(base_, bytes_, PROT_READ | PROT_EXEC);
    }
    Executable(const Executable&) = delete;
    Executable& operator=(const Executable&) = delete;
    ~Executable() { munmap(base_, bytes_); }
    void operator()(const void* args) const {
        reinterpret_cast<MicrokernelFunction>(static_cast<uint8_t*>(base_) + entry_)(args);
    }

private:
    std::size_t bytes_;
    uint32_t entry_;
    void* base_ = nullptr;
};

inline std::string library_directory() {
    const char* directory = std::getenv("WHET_TEST_LIBRARY_DIR");
    return directory != nullptr ? directory : "build/release/lib/whet";
}

inline bool host_runs(Isa isa) {
    if (isa == Isa::avx2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

/// Equal bits, or both NaN (which of two NaN payloads survives is not part of the rules).
template <typename T>
bool same(T a, T b) {
    return std::memcmp(&a, &b, sizeof a) == 0 || (a != a && b != b);
}

}  // namespace whet::jit::cpu
