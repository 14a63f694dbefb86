// SPDX-License-Identifier: Apache-2.0
// Where microkernels come from: memory, the store, the file made at build time, the compiler; each
// checked once.
#include "runtime/forge/kernel_source.hpp"

#include <sys/time.h>

#include <algorithm>
#include <csignal>

#include "base/clock.hpp"
#include "base/hash.hpp"

namespace whet::runtime::forge {
namespace {

using base::Code;
using base::make_error;

constexpr size_t kMostHeld = 384;       ///< kernels kept for the next candidate: about 2 MiB
constexpr size_t kBuildSamples = 4096;  ///< builds remembered for the percentiles
constexpr int kCompileLimitSeconds =
    20;  ///< CPU time of one compile, a thousand times the usual; then LLVM hangs

/// Ends the process (SIGPROF's default action) when the scope takes longer: the program starts a
/// new forge.
class Watchdog {
public:
    explicit Watchdog(bool active) : active_(active) {
        if (active_) {
            sigset_t timer;
            sigemptyset(&timer);
            sigaddset(&timer, SIGPROF);
            pthread_sigmask(SIG_UNBLOCK, &timer, nullptr);
        }
        set(kCompileLimitSeconds);
    }
    ~Watchdog() { set(0); }
    Watchdog(const Watchdog&) = delete;
    Watchdog& operator=(const Watchdog&) = delete;

private:
    void set(int seconds) const {
        if (!active_) return;
        itimerval timer{};
        timer.it_value.tv_sec = seconds;
        setitimer(ITIMER_PROF, &timer, nullptr);
    }
    bool active_;
};

uint64_t id_of(const jit::Blob& blob) {
    return base::hash_bytes(blob.bytes.data(), blob.bytes.size(),
                            jit::hash_of(blob.spec) ^ blob.entry);
}

}  // namespace

KernelSource::KernelSource(std::string directory, bool watchdog, Complain complain)
    : directory_(std::move(directory)), watchdog_(watchdog), complain_(std::move(complain)) {}

/// Opened when it is first needed: a warm start has its microkernels from the store.
const jit::cpu::Prebuilt* KernelSource::prebuilt() const {
    if (!prebuilt_looked_for_) {
        prebuilt_looked_for_ = true;
        auto opened = jit::cpu::Prebuilt::open(directory_ + "/" + jit::cpu::kPrebuiltFile);
        if (opened)
            prebuilt_ = std::move(*opened);
        else if (complain_)
            complain_("no installed microkernels (" + opened.error().message +
                      "): all have to be compiled");
    }
    return prebuilt_ ? &*prebuilt_ : nullptr;
}

KernelRef KernelSource::remember(jit::Blob blob) {
    auto kernel = std::make_shared<BuiltKernel>();
    kernel->id = id_of(blob);
    kernel->proven = true;
    kernel->blob = std::move(blob);
    if (!held_.insert_or_assign(kernel->blob.spec, kernel).second) return kernel;
    order_.push_back(kernel->blob.spec);
    // Kernels of plans that serve stay; of the others the oldest goes and is built again if it is
    // asked for again.
    for (size_t looked = 0; order_.size() > kMostHeld && looked < kMostHeld; ++looked) {
        const jit::MicrokernelSpec oldest = order_.front();
        order_.pop_front();
        if (held_.at(oldest).use_count() > 1)
            order_.push_back(oldest);
        else
            held_.erase(oldest);
    }
    return kernel;
}

void KernelSource::add_stored(std::vector<jit::Blob> blobs) {
    for (jit::Blob& blob : blobs) {
        if (!held_.contains(blob.spec)) remember(std::move(blob));
    }
}

bool KernelSource::ready(const jit::MicrokernelSpec& spec) const {
    return held_.contains(spec) || (prebuilt() != nullptr && prebuilt()->find(spec).has_value());
}

base::Result<KernelRef> KernelSource::kernel(const jit::MicrokernelSpec& spec, bool may_compile) {
    if (const auto found = held_.find(spec); found != held_.end()) return found->second;
    if (const auto found = refused_.find(spec); found != refused_.end()) return found->second;
    if (prebuilt() != nullptr) {
        if (auto blob = prebuilt()->copy(spec)) return remember(std::move(*blob));
    }
    if (!may_compile)
        return make_error(Code::not_found, "%s has to be compiled", spec.print().c_str());
    auto compiled = compile(spec);
    if (!compiled) refused_.emplace(spec, compiled.error());
    return compiled;
}

base::Result<jit::cpu::Compiler*> KernelSource::compiler() {
    if (compiler_ != nullptr) return compiler_.get();
    if (compiler_error_) return *compiler_error_;
    const auto fatal = watchdog_ ? jit::cpu::Fatal::exit : jit::cpu::Fatal::park;
    auto opened = jit::cpu::open_compiler(directory_, fatal);
    if (!opened) {
        compiler_error_ = opened.error();
        if (complain_)
            complain_("no code generator (" + opened.error().message +
                      "): only microkernels that are there already");
        return *compiler_error_;
    }
    compiler_ = std::move(*opened);
    return compiler_.get();
}

base::Result<KernelRef> KernelSource::compile(const jit::MicrokernelSpec& spec) {
    const Watchdog watchdog(watchdog_);
    WHET_TRY(jit::cpu::Compiler* const llvm, compiler());
    const int64_t began = base::thread_cpu_ns();
    WHET_TRY(jit::Blob blob, llvm->compile(spec));
    ++compiles_;
    WHET_TRY(const jit::cpu::StaticReport report, llvm->check(blob, false));
    if (build_ms_.size() == kBuildSamples) build_ms_.erase(build_ms_.begin());
    build_ms_.push_back(static_cast<float>(base::thread_cpu_ns() - began) * 1e-6f);
    if (!report.accepted) {
        ++rejected_static_;
        return make_error(Code::verify_failed, "%s: %s", spec.print().c_str(),
                          report.reason.c_str());
    }
    return remember(std::move(blob));
}

base::Result<std::vector<KernelRef>> KernelSource::kernels(
    const std::vector<jit::MicrokernelSpec>& specs, bool may_compile, int* compiled) {
    std::vector<KernelRef> kernels;
    const uint64_t before = compiles_;
    for (const jit::MicrokernelSpec& spec : specs) {
        WHET_TRY(KernelRef ref, kernel(spec, may_compile));
        kernels.push_back(std::move(ref));
    }
    if (compiled != nullptr) *compiled = static_cast<int>(compiles_ - before);
    return kernels;
}

base::Result<KernelRef> KernelSource::plant(const jit::MicrokernelSpec& spec,
                                            std::vector<uint8_t> code, bool skip_static) {
    auto planted = std::make_shared<BuiltKernel>();
    planted->blob.spec = spec;
    planted->blob.text_bytes = static_cast<uint32_t>(code.size());
    planted->blob.bytes = std::move(code);
    planted->id = id_of(planted->blob);
    if (skip_static) return KernelRef(planted);
    WHET_TRY(jit::cpu::Compiler* const llvm, compiler());
    WHET_TRY(const jit::cpu::StaticReport report, llvm->check(planted->blob, false));
    if (!report.accepted) {
        ++rejected_static_;
        return make_error(Code::verify_failed, "static check: %s", report.reason.c_str());
    }
    planted->proven = true;
    return KernelRef(planted);
}

base::Result<jit::cpu::StaticReport> KernelSource::inspect(const BuiltKernel& kernel) {
    const Watchdog watchdog(watchdog_);
    WHET_TRY(jit::cpu::Compiler* const llvm, compiler());
    return llvm->check(kernel.blob, true);
}

double KernelSource::build_ms(double share) const {
    if (build_ms_.empty()) return 0;
    std::vector<float> sorted = build_ms_;
    std::sort(sorted.begin(), sorted.end());
    return static_cast<double>(
        sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1))]);
}

}  // namespace whet::runtime::forge
