// SPDX-License-Identifier: Apache-2.0
// Memory for candidates: blocks that touch an unmapped page, with canaries in the slack; and a
// place for their code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "base/status.hpp"
#include "jit/microkernel.hpp"

namespace whet::runtime::forge {

/// Which side of a block touches the unmapped page.
enum class Edge : uint8_t { end, start };

/// A block of its own mapping. Guarded: the page after (Edge::end) or before (Edge::start) the
/// block's bytes is not accessible, and so is the page on the mapping's other side; the slack of
/// the last page holds a canary. Not guarded (a forge inside the program, where a fault would be
/// the program's): the same with readable pages full of canaries. Move-only; not thread-safe.
class GuardedBuffer {
public:
    GuardedBuffer() = default;
    /// out_of_budget when the mapping is refused.
    static base::Result<GuardedBuffer> make(size_t bytes, Edge edge, bool guarded);
    GuardedBuffer(GuardedBuffer&& other) noexcept { swap(other); }
    GuardedBuffer& operator=(GuardedBuffer&& other) noexcept {
        swap(other);
        return *this;
    }
    GuardedBuffer(const GuardedBuffer&) = delete;
    GuardedBuffer& operator=(const GuardedBuffer&) = delete;
    ~GuardedBuffer();

    std::byte* data() const { return data_; }
    float* floats() const { return values<float>(); }
    template <typename T>
    T* values() const {
        return reinterpret_cast<T*>(data_);
    }
    size_t bytes() const { return bytes_; }
    bool empty() const { return mapping_ == nullptr; }
    /// Makes the block read-only (a write then faults), or writable again.
    void protect(bool read_only);
    /// Asks for huge pages, as the program's packed operands have. To be called before the block is
    /// written.
    void prefer_huge_pages();
    /// False when a byte of the slack was written.
    bool canary_intact() const;

private:
    void swap(GuardedBuffer& other) noexcept;
    std::byte* mapping_ = nullptr;  ///< the whole, guards included
    size_t mapped_ = 0;
    std::byte* body_ = nullptr;  ///< the accessible part
    size_t body_bytes_ = 0;
    std::byte* data_ = nullptr;
    size_t bytes_ = 0;
};

/// Executable memory for blobs: one region, mapped twice (writable, executable) or, where that is
/// forbidden, sealed again after each copy; filled from the start and begun anew when it is full. Loading the same kernel id again gives the same address
/// while it is held. Not thread-safe.
class CodeArena {
public:
    static constexpr size_t kBytes = 4u
                                     << 20;  ///< a microkernel takes 1 to 8 KiB: about a thousand

    CodeArena() = default;
    ~CodeArena();
    CodeArena(const CodeArena&) = delete;
    CodeArena& operator=(const CodeArena&) = delete;

    /// Copies a blob. Pointers stay valid until begin_group() is called. device_error without
    /// executable memory.
    base::Result<jit::MicrokernelFunction> load(uint64_t id, const jit::Blob& blob);
    /// Says that earlier pointers are no longer held; makes room when less than a quarter is left.
    void begin_group();
    bool holds(uint64_t id) const { return loaded_.contains(id); }

private:
    bool open_twice();
    base::Result<void> open_once();
    base::Result<void> copy(std::byte* to, const jit::Blob& blob);
    std::byte* writable_ = nullptr;
    std::byte* executable_ = nullptr;  ///< the same where the region is mapped once
    size_t used_ = 0;
    std::unordered_map<uint64_t, jit::MicrokernelFunction> loaded_;
};

}  // namespace whet::runtime::forge
