// SPDX-License-Identifier: Apache-2.0
// Memory for candidates: blocks that touch an unmapped page, with canaries in the slack; and a
// place for their code.
#include "runtime/forge/guarded_buffer.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace whet::runtime::forge {
namespace {

constexpr size_t kPage = 4096;
constexpr int kCanary = 0xa5;

constexpr size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

bool all_canary(const std::byte* first, const std::byte* last) {
    if (first >= last) return true;
    const auto bytes = static_cast<size_t>(last - first);
    return *first == std::byte{kCanary} && std::memcmp(first, first + 1, bytes - 1) == 0;
}

}  // namespace

base::Result<GuardedBuffer> GuardedBuffer::make(size_t bytes, Edge edge, bool guarded) {
    GuardedBuffer buffer;
    buffer.bytes_ = bytes;
    buffer.body_bytes_ = round_up(bytes == 0 ? 1 : bytes, kPage);
    buffer.mapped_ = buffer.body_bytes_ + 2 * kPage;
    void* mapping =
        mmap(nullptr, buffer.mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) {
        return base::make_error(base::Code::out_of_budget, "no memory for %zu bytes: %s", bytes,
                                std::strerror(errno));
    }
    buffer.mapping_ = static_cast<std::byte*>(mapping);
    buffer.body_ = buffer.mapping_ + kPage;
    buffer.data_ = edge == Edge::end ? buffer.body_ + buffer.body_bytes_ - bytes : buffer.body_;
    if (guarded) {
        mprotect(buffer.mapping_, kPage, PROT_NONE);
        mprotect(buffer.body_ + buffer.body_bytes_, kPage, PROT_NONE);
    } else {
        // The guards become part of the slack.
        buffer.body_ = buffer.mapping_;
        buffer.body_bytes_ = buffer.mapped_;
    }
    const auto before = static_cast<size_t>(buffer.data_ - buffer.body_);
    std::memset(buffer.body_, kCanary, before);
    std::memset(buffer.data_ + bytes, kCanary, buffer.body_bytes_ - before - bytes);
    return buffer;
}

GuardedBuffer::~GuardedBuffer() {
    if (mapping_ != nullptr) munmap(mapping_, mapped_);
}

void GuardedBuffer::swap(GuardedBuffer& other) noexcept {
    std::swap(mapping_, other.mapping_);
    std::swap(mapped_, other.mapped_);
    std::swap(body_, other.body_);
    std::swap(body_bytes_, other.body_bytes_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
}

void GuardedBuffer::protect(bool read_only) {
    if (body_ != nullptr)
        mprotect(body_, body_bytes_, read_only ? PROT_READ : PROT_READ | PROT_WRITE);
}

void GuardedBuffer::prefer_huge_pages() {
    if (body_ != nullptr) madvise(body_, body_bytes_, MADV_HUGEPAGE);
}

bool GuardedBuffer::canary_intact() const {
    return all_canary(body_, data_) && all_canary(data_ + bytes_, body_ + body_bytes_);
}

CodeArena::~CodeArena() {
    if (writable_ != nullptr) munmap(writable_, kBytes);
    if (executable_ != nullptr && executable_ != writable_) munmap(executable_, kBytes);
}

bool CodeArena::open_twice() {
    const int memory = memfd_create("whet-candidates", MFD_CLOEXEC);
    if (memory < 0) return false;
    void *writable = MAP_FAILED, *executable = MAP_FAILED;
    if (ftruncate(memory, kBytes) == 0) {
        writable = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
        executable = mmap(nullptr, kBytes, PROT_READ | PROT_EXEC, MAP_SHARED, memory, 0);
    }
    close(memory);
    if (writable == MAP_FAILED || executable == MAP_FAILED) {
        if (writable != MAP_FAILED) munmap(writable, kBytes);
        if (executable != MAP_FAILED) munmap(executable, kBytes);
        return false;
    }
    writable_ = static_cast<std::byte*>(writable);
    executable_ = static_cast<std::byte*>(executable);
    return true;
}

/// Where no memory file may be executed: one mapping, writable only while code is copied.
base::Result<void> CodeArena::open_once() {
    void* memory =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, kBytes, PROT_READ | PROT_EXEC) != 0) {
        const int error = errno;
        if (memory != MAP_FAILED) munmap(memory, kBytes);
        return base::make_error(base::Code::device_error, "no executable memory: %s",
                                std::strerror(error));
    }
    writable_ = executable_ = static_cast<std::byte*>(memory);
    return {};
}

base::Result<void> CodeArena::copy(std::byte* to, const jit::Blob& blob) {
    const bool once = writable_ == executable_;
    if (once && mprotect(writable_, kBytes, PROT_READ | PROT_WRITE) != 0)
        return base::make_error(base::Code::device_error, "code stays unwritable: %s",
                                std::strerror(errno));
    std::memcpy(to, blob.bytes.data(), blob.bytes.size());
    if (once && mprotect(writable_, kBytes, PROT_READ | PROT_EXEC) != 0)
        return base::make_error(base::Code::device_error, "no executable memory: %s",
                                std::strerror(errno));
    return {};
}

void CodeArena::begin_group() {
    if (used_ < kBytes / 4 * 3) return;
    used_ = 0;
    loaded_.clear();
}

base::Result<jit::MicrokernelFunction> CodeArena::load(uint64_t id, const jit::Blob& blob) {
    constexpr size_t kAlign = 64;
    if (const auto found = loaded_.find(id); found != loaded_.end()) return found->second;
    if (writable_ == nullptr && !open_twice()) WHET_TRY_VOID(open_once());
    if (blob.bytes.empty() || blob.entry >= blob.bytes.size() ||
        blob.bytes.size() > kBytes - used_) {
        return base::make_error(base::Code::device_error, "a blob of %zu bytes does not fit",
                                blob.bytes.size());
    }
    WHET_TRY_VOID(copy(writable_ + used_, blob));
    auto* function = reinterpret_cast<jit::MicrokernelFunction>(executable_ + used_ + blob.entry);
    used_ = round_up(used_ + blob.bytes.size(), kAlign);
    loaded_.emplace(id, function);
    return function;
}

}  // namespace whet::runtime::forge
