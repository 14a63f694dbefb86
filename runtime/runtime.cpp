// SPDX-License-Identifier: Apache-2.0
// Making the process's runtime, and what fork does to it.
#include "runtime/runtime.hpp"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/host.hpp"
#include "base/log.hpp"
#include "runtime/forge/orphans.hpp"
#include "runtime/tuner/tuner.hpp"
#include "runtime/usable_options.hpp"

namespace whet::runtime {

HotSettings hot_settings;

namespace {

std::atomic<Runtime*> the_runtime{nullptr};
std::once_flag made;

jit::Isa usable_isa(base::IsaLimit limit) {
    const base::HostFeatures features = base::host_features();
    if (limit == base::IsaLimit::portable) return jit::Isa::portable;
    if (features.avx512 &&
        (limit == base::IsaLimit::automatic || limit == base::IsaLimit::avx512)) {
        return jit::Isa::avx512;
    }
    return features.avx2_fma ? jit::Isa::avx2 : jit::Isa::portable;
}

/// The budget without which no plan can serve and that is 0, or null.
const char* budget_of_nothing(const base::Options& options) {
    if (options.budget_cpu && *options.budget_cpu <= 0) return "WHET_BUDGET_CPU=0";
    if (options.budget_seconds <= 0) return "WHET_BUDGET_SECONDS=0";
    if (options.budget_memory_bytes && *options.budget_memory_bytes <= 0)
        return "WHET_BUDGET_MEMORY=0";
    if (options.budget_code_bytes <= 0) return "WHET_BUDGET_CODE=0";
    return nullptr;
}

bool has_store(const base::Options& options) {
    return !options.store_path.empty() && ::access(options.store_path.c_str(), F_OK) == 0;
}

/// Why nothing may be tuned in this process, or "".
std::string reason_untuned(const base::Options& options, jit::Isa isa) {
    if (!options.enable) return "WHET_ENABLE=0";
    if (const char* const budget = budget_of_nothing(options)) return budget;
    if (options.tune == base::Tune::off && !has_store(options))
        return "WHET_TUNE=off and no store";
    if (options.budget_trials <= 0 && !has_store(options))
        return "WHET_BUDGET_TRIALS=0 and no store";
    if (options.forge == base::ForgeMode::off) return "WHET_FORGE=off";
    if (options.numerics == base::Numerics::strict) return "WHET_NUMERICS=strict";
    if (::getauxval(AT_SECURE)) return "a setuid program";
    if (isa == jit::Isa::portable && options.isa != base::IsaLimit::portable)
        return "a CPU without AVX2 and FMA";
    return "";
}

// Only locks that the tuner's thread never holds for long are taken around a fork: that thread has
// the lowest priority, and whoever waits for it on a busy machine waits for everybody. What it may
// have been in the middle of, the child replaces.
void before_fork() {
    Runtime* const r = runtime_if_made();
    if (!r) return;
    forge::note_reaping();
    r->sites.mutex().lock();
    r->frozen.mutex().lock();
    r->frozen.ranges_mutex().lock();
}

void release_after_fork(Runtime& r) {
    r.frozen.ranges_mutex().unlock();
    r.frozen.mutex().unlock();
    r.sites.mutex().unlock();
}

void after_fork_in_parent() {
    if (Runtime* const r = runtime_if_made()) release_after_fork(*r);
}

void after_fork_in_child() {
    Runtime* const r = runtime_if_made();
    if (!r) return;
    release_after_fork(*r);
    r->frozen.after_fork_in_child();
    r->code.after_fork_in_child();
    r->tuner->close_in_child();
    r->tuner = new Tuner(*r, true);  // starts at the child's next sampled call
}

void make_runtime() {
    std::vector<std::string> warnings;
    base::Options options = base::load_options(environ, warnings);
    drop_unusable(options, warnings);
    if (auto settings = base::parse_log_settings(options.log)) {
        settings->path = options.log_file;
        if (auto configured = base::configure_log(*settings); !configured)
            warnings.push_back("WHET_LOG_FILE is ignored: " + configured.error().message);
    } else {
        warnings.push_back("WHET_LOG is ignored: " + settings.error().message);
    }
    const bool silent = budget_of_nothing(options) != nullptr;
    for (const auto& warning : warnings) {
        if (!silent) base::log_event(base::Level::warning, "env", warning, {});
    }
    auto* const r = new Runtime(options);
    forge::note_reaping();
    ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    the_runtime.store(r, std::memory_order_release);
    // The parent's last look: what the program did until its end. A program that is killed leaves
    // an earlier one.
    if (!options.control_path.empty()) std::atexit([] { runtime().tuner->at_exit(); });
}

}  // namespace

Runtime::Runtime(const base::Options& given)
    : options(given),
      isa(usable_isa(given.isa)),
      sites(static_cast<uint32_t>(given.budget_sites)),
      code(static_cast<size_t>(given.budget_code_bytes), given.perf),
      frozen(given.budget_packed_bytes.value_or(-1)) {
    untuned_reason = reason_untuned(options, isa);
    may_tune = untuned_reason.empty();
    enabled = options.enable;
    if (!may_tune && untuned_reason.rfind("WHET_", 0) != 0) {
        base::log_event(base::Level::warning, "runtime", untuned_reason + ": untuned", {});
    }
    tuner = new Tuner(*this);
    apply_switches();
}

void Runtime::apply_switches() noexcept {
    const bool invariant = options.numerics == base::Numerics::invariant;
    hot_settings.every_call_slow.store(!enabled || options.checked || invariant,
                                       std::memory_order_release);
}

Runtime& runtime() {
    if (Runtime* const r = the_runtime.load(std::memory_order_acquire)) return *r;
    std::call_once(made, make_runtime);
    return *the_runtime.load(std::memory_order_acquire);
}

Runtime* runtime_if_made() noexcept { return the_runtime.load(std::memory_order_acquire); }

std::string helper_directory() {
    Dl_info info{};
    link_map* map = nullptr;
    if (!::dladdr1(reinterpret_cast<void*>(&whet_site_call), &info, reinterpret_cast<void**>(&map),
                   RTLD_DL_LINKMAP) ||
        !map) {
        return "";
    }
    // The loader has noted the folder when it opened the library: the name may be a relative path,
    // and the program may have changed its folder since. It has not for the program itself, where
    // a static Whet would be.
    std::string folder;
    if (map->l_name && *map->l_name) {
        folder.resize(std::strlen(map->l_name) + PATH_MAX + 1);
        if (::dlinfo(map, RTLD_DI_ORIGIN, folder.data()) != 0) return "";
        folder.resize(std::strlen(folder.c_str()));
    } else {
        folder.resize(PATH_MAX);
        const ssize_t bytes = ::readlink("/proc/self/exe", folder.data(), folder.size());
        folder.resize(bytes > 0 ? static_cast<size_t>(bytes) : 0);
        folder.resize(std::min(folder.rfind('/'), folder.size()));
    }
    return folder.empty() ? "" : folder + "/whet";
}

}  // namespace whet::runtime
