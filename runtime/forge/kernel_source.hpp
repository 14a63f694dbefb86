// SPDX-License-Identifier: Apache-2.0
// Where microkernels come from: memory, the store, the file made at build time, the compiler; each
// checked once.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.hpp"
#include "jit/cpu/compiler.hpp"
#include "jit/cpu/prebuilt.hpp"
#include "runtime/forge/executor.hpp"

namespace whet::runtime::forge {

/// Not thread-safe. Holds the last few hundred kernels it gave out (4 to 8 KiB each), however long
/// the search.
class KernelSource {
public:
    /// Hears in one line, once each, of a file that cannot be used.
    using Complain = std::function<void(const std::string& line)>;

    /// directory: of microkernels.bin and libwhet_llvm.so. Without the first there is more to
    /// compile, without the second nothing new is built. watchdog: the process is the forge's own,
    /// and may be ended by a timer when LLVM hangs.
    KernelSource(std::string directory, bool watchdog, Complain complain = {});

    /// Adds blobs of the store; their keyed hash vouched for the static check.
    void add_stored(std::vector<jit::Blob> blobs);
    /// True when kernel(spec, false) would succeed. O(log n), no LLVM.
    bool ready(const jit::MicrokernelSpec& spec) const;
    /// The kernel of a spec. not_found: it would have to be compiled and `may_compile` is false.
    /// compile_failed, verify_failed (the static check refused it): remembered, so the next ask is
    /// cheap. io_error: no compiler.
    base::Result<KernelRef> kernel(const jit::MicrokernelSpec& spec, bool may_compile);
    /// Kernels of a plan, in order; `compiled` counts those that had to be compiled.
    base::Result<std::vector<KernelRef>> kernels(const std::vector<jit::MicrokernelSpec>& specs,
                                                 bool may_compile, int* compiled);
    /// Wraps foreign code as a kernel of `spec`, after the static check unless `skip_static`.
    /// verify_failed: refused.
    base::Result<KernelRef> plant(const jit::MicrokernelSpec& spec, std::vector<uint8_t> code,
                                  bool skip_static);
    /// What the static check says of a kernel, with its disassembly.
    base::Result<jit::cpu::StaticReport> inspect(const BuiltKernel& kernel);

    uint64_t compiles() const { return compiles_; }
    uint64_t rejected_static() const { return rejected_static_; }
    /// Milliseconds from IR to checked blob: the median (share 0.5) and so on; 0 before the first
    /// build.
    double build_ms(double share) const;

private:
    struct SpecHash {
        size_t operator()(const jit::MicrokernelSpec& spec) const { return jit::hash_of(spec); }
    };
    base::Result<jit::cpu::Compiler*> compiler();
    base::Result<KernelRef> compile(const jit::MicrokernelSpec& spec);
    KernelRef remember(jit::Blob blob);
    const jit::cpu::Prebuilt* prebuilt() const;

    std::string directory_;
    bool watchdog_;
    Complain complain_;
    mutable std::optional<jit::cpu::Prebuilt> prebuilt_;
    mutable bool prebuilt_looked_for_ = false;
    std::unique_ptr<jit::cpu::Compiler> compiler_;
    std::optional<base::Error> compiler_error_;
    std::unordered_map<jit::MicrokernelSpec, KernelRef, SpecHash> held_;
    std::deque<jit::MicrokernelSpec> order_;  ///< of held_, oldest first
    std::unordered_map<jit::MicrokernelSpec, base::Error, SpecHash> refused_;
    uint64_t compiles_ = 0, rejected_static_ = 0;
    std::vector<float> build_ms_;  ///< the last kBuildSamples builds
};

}  // namespace whet::runtime::forge
