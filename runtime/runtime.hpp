// SPDX-License-Identifier: Apache-2.0
// The one Whet of a process: options, table, code, promises, tuner; made at the first use, never
// destroyed.
#pragma once

#include <atomic>
#include <memory>

#include "base/env.hpp"
#include "jit/microkernel.hpp"
#include "runtime/code_slab/code_slab.hpp"
#include "runtime/dispatch/frozen.hpp"
#include "runtime/dispatch/site.hpp"

namespace whet::runtime {

class Tuner;

/// What every call reads; one line, written only by whet_enable, whet_disable and at start.
struct alignas(64) HotSettings {
    std::atomic<bool> every_call_slow{
        false};  ///< disabled, checked mode, or invariant mode without plans
};
extern HotSettings hot_settings;

/// Members are set up once and thread-safe by themselves.
struct Runtime {
    base::Options options;
    jit::Isa isa = jit::Isa::portable;
    SiteTable sites;
    CodeSlab code;
    FrozenRegistry frozen;
    Tuner* tuner = nullptr;
    std::atomic<bool> enabled{true}, paused{false}, pinned{false};
    std::atomic<uint64_t> bypassed[WHET_BYPASS_FULL + 1] = {};  ///< calls, by whet_bypass
    bool may_tune = false;  ///< false: a budget of 0, nothing to take from a store, setuid, no
                            ///< usable CPU ...: the tuner is never started
    std::string untuned_reason;

    explicit Runtime(const base::Options& given);
    /// Recomputes hot_settings from the switches.
    void apply_switches() noexcept;
};

/// The process's runtime; made at the first call (about 1 ms: environment, host), one acquire load
/// afterwards.
Runtime& runtime();
/// Null before the first use.
Runtime* runtime_if_made() noexcept;

/// The path of the folder that holds libwhet.so's helpers, by where this code was loaded from; ""
/// when unknown.
std::string helper_directory();

}  // namespace whet::runtime
