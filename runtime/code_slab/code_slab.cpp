// SPDX-License-Identifier: Apache-2.0
// Executable memory by dual mapping, or by sealing one anonymous chunk per blob where that is
// forbidden.
#include "runtime/code_slab/code_slab.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/hash.hpp"

namespace whet::runtime {
namespace {

using base::Code;
using base::make_error;

constexpr size_t kAlignment = 64;  // bytes: a cache line, what blobs expect
constexpr size_t kPageBytes = 4096;
constexpr size_t kChunkBytes = 256 * 1024;  // bytes mapped at a time: a few dozen microkernels

size_t round_up(size_t value, size_t to) { return (value + to - 1) / to * to; }

}  // namespace

base::Result<jit::MicrokernelFunction> CodeSlab::publish(const jit::Blob& blob,
                                                         std::string_view name) {
    if (blob.entry >= blob.text_bytes || blob.text_bytes > blob.bytes.size()) {
        return make_error(
            Code::invalid_argument,
            "got a blob of %zu bytes with entry %u, expected the entry inside its text",
            blob.bytes.size(), blob.entry);
    }
    std::lock_guard lock(mutex_);
    const uint64_t hash = base::hash_bytes(blob.bytes.data(), blob.bytes.size(), blob.entry);
    const auto [first, last] = published_->equal_range(hash);
    for (auto it = first; it != last; ++it) {
        if (it->second.entry == blob.entry && it->second.bytes == blob.bytes)
            return it->second.function;
    }
    WHET_TRY(uint8_t* const address, place(blob.bytes.data(), blob.bytes.size()));
    const auto function = reinterpret_cast<jit::MicrokernelFunction>(address + blob.entry);
    if (perf_map_wanted_)
        perf_map_.record(address, blob.bytes.size(), name.empty() ? "whet:code" : name);
    published_->emplace(hash, Published{blob.bytes, blob.entry, function});
    return function;
}

base::Result<uint8_t*> CodeSlab::place(const uint8_t* bytes, size_t size) {
    const size_t need = round_up(size, kAlignment);
    if (used_total_ + need > budget_bytes_) {
        return make_error(Code::out_of_budget,
                          "generated code needs %zu bytes more, %zu of %zu are used", need,
                          used_total_, budget_bytes_);
    }
    if (denied_) return make_error(Code::unsupported, "the system gives no executable memory");
    if (!dual_failed_ && used_ + need > chunk_bytes_) {
        if (!open_chunk(need)) dual_failed_ = true;
    }
    if (dual_failed_) return place_sealed(bytes, size);
    std::memcpy(writable_ + used_, bytes, size);
    uint8_t* const address = executable_ + used_;
    used_ += need;
    used_total_ += need;
    return address;
}

base::Result<void> CodeSlab::open_chunk(size_t least_bytes) {
    const size_t bytes = round_up(std::max(least_bytes, kChunkBytes), kPageBytes);
    const int file = ::memfd_create("whet-code", MFD_CLOEXEC);
    if (file < 0) return make_error(Code::unsupported, "no memory file: %s", std::strerror(errno));
    void* writable = MAP_FAILED;
    void* executable = MAP_FAILED;
    if (::ftruncate(file, static_cast<off_t>(bytes)) == 0) {
        executable = ::mmap(nullptr, bytes, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0);
        if (executable != MAP_FAILED) {
            writable = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        }
    }
    ::close(file);
    if (writable == MAP_FAILED) {
        if (executable != MAP_FAILED) ::munmap(executable, bytes);
        return make_error(Code::unsupported, "no executable mapping: %s", std::strerror(errno));
    }
    ::madvise(writable, bytes, MADV_DONTFORK);
    writable_ = static_cast<uint8_t*>(writable);
    executable_ = static_cast<uint8_t*>(executable);
    chunk_bytes_ = bytes;
    used_ = 0;
    return {};
}

bool CodeSlab::available() {
    std::lock_guard lock(mutex_);
    if (!denied_ && !dual_failed_ && chunk_bytes_ == 0 && !open_chunk(kChunkBytes))
        dual_failed_ = true;
    if (!denied_ && dual_failed_) {
        constexpr uint8_t kReturn = 0xc3;
        if (auto page = map_sealed(&kReturn, 1, kPageBytes)) ::munmap(*page, kPageBytes);
    }
    return !denied_;
}

base::Result<uint8_t*> CodeSlab::place_sealed(const uint8_t* bytes, size_t size) {
    const size_t mapped = round_up(size, kPageBytes);
    WHET_TRY(uint8_t* const chunk, map_sealed(bytes, size, mapped));
    used_total_ += mapped;
    return chunk;
}

base::Result<uint8_t*> CodeSlab::map_sealed(const uint8_t* bytes, size_t size, size_t mapped) {
    void* const chunk =
        ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (chunk != MAP_FAILED) {
        std::memcpy(chunk, bytes, size);
        if (::mprotect(chunk, mapped, PROT_READ | PROT_EXEC) == 0)
            return static_cast<uint8_t*>(chunk);
        ::munmap(chunk, mapped);
    }
    denied_ = true;
    return make_error(Code::unsupported, "the system gives no executable memory");
}

void CodeSlab::after_fork_in_child() noexcept {
    new (&mutex_) std::mutex;
    perf_map_.after_fork_in_child();
    published_ = new PublishedBlobs;
    writable_ = nullptr;  // not mapped here (MADV_DONTFORK)
    executable_ = nullptr;
    chunk_bytes_ = used_ = 0;
}

}  // namespace whet::runtime
