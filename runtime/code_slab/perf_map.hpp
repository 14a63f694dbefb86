// SPDX-License-Identifier: Apache-2.0
// The perf map: the file by which `perf` names samples in generated code (Linux,
// tools/perf/Documentation/jit-interface.txt).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace whet::runtime {

/// Writes /tmp/perf-PID.map, private to its owner, from the first record on. A file or link that is
/// there already is left alone: then nothing is recorded, with one warning. A forked child writes a
/// file of its own, which begins with its parent's lines. Not thread-safe; never fails its caller.
class PerfMap {
public:
    /// Adds a line; about 5 us.
    void record(const void* address, size_t bytes, std::string_view name) noexcept;
    /// Child of a fork: its parent's file is only read from now on. Allocates nothing.
    void after_fork_in_child() noexcept;
    /// The file of this process.
    static std::string path();

private:
    bool open();
    void copy_inherited();
    bool is_map(int descriptor) const;
    void write(std::string_view text);

    int descriptor_ = -1, inherited_ = -1;
    dev_t device_ = 0;  ///< of the file behind either descriptor: the program may close what it
    ino_t inode_ = 0;   ///< did not open, and get the number for a file of its own
    bool failed_ = false;
};

/// "matmul m=32 k=384" as "whet:matmul_m32_k384": one word, for tools that split lines.
std::string perf_name(std::string_view operation, std::string_view kernel);

}  // namespace whet::runtime
