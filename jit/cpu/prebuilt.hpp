// SPDX-License-Identifier: Apache-2.0
// The file of microkernels made at build time: writing it, and finding a blob in it without LLVM.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "jit/microkernel.hpp"

namespace whet::jit::cpu {

/// Name of the file beside libwhet_llvm.so.
inline constexpr const char* kPrebuiltFile = "microkernels.bin";

/// A blob inside the mapped file; valid as long as its Prebuilt lives.
struct BlobView {
    std::span<const uint8_t> bytes;  ///< 64-byte aligned
    uint32_t entry = 0;
    uint32_t text_bytes = 0;
};

/// A read-only mapping of the file. Movable; thread-safe after open. Its blobs passed the static
/// check when they were made; the file carries a checksum against damage, not against an enemy.
class Prebuilt {
public:
    /// io_error: no such file, damaged, or of another generator version.
    static base::Result<Prebuilt> open(const std::string& path);

    /// O(log n) in the number of blobs; allocates the spec's text.
    std::optional<BlobView> find(const MicrokernelSpec& spec) const;
    /// As find, as a Blob of its own.
    std::optional<Blob> copy(const MicrokernelSpec& spec) const;
    std::size_t size() const noexcept { return texts_.size(); }
    /// The spec of entry `index` < size(), as text, in ascending order.
    std::string_view text(std::size_t index) const { return texts_[index]; }

private:
    struct Mapping;
    std::shared_ptr<const Mapping> mapping_;
    std::vector<std::string_view> texts_;
    std::vector<BlobView> views_;
};

/// Writes aside, then renames. invalid_argument when two blobs have one spec, io_error.
base::Result<void> write_prebuilt(const std::string& path, std::vector<Blob> blobs);

}  // namespace whet::jit::cpu
