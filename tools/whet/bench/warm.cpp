// SPDX-License-Identifier: Apache-2.0
// `whet bench warm`: from the first call of a fresh process to N plans published, out of a filled
// store.
//
// Two children of this tool do the work: the first tunes N products into a store until all are
// served and ends; the second, with WHET_TUNE=off, calls the same products and takes the time until
// a plan answers each. Neither LibTorch nor any peer is in the second one.
#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "tools/whet/bench/buffers.hpp"
#include "tools/whet/bench/case.hpp"
#include "tools/whet/bench/facts.hpp"
#include "tools/whet/bench/live_site.hpp"
#include "tools/whet/bench/machine.hpp"
#include "tools/whet/bench/options.hpp"
#include "tools/whet/bench/paths.hpp"
#include "tools/whet/bench/reference.hpp"
#include "tools/whet/bench/result.hpp"
#include "tools/whet/bench/self_process.hpp"

namespace whet::bench {
namespace {

constexpr double kFillSecondsPerPlan = 2.0;  // at most, of tuning into the store
constexpr double kSaveSeconds =
    4.0;  // after the first trial: by then every first plan was timed and stored
constexpr double kWarmSeconds = 20;  // wait for the plans of a warm start at most
constexpr auto kBetweenRounds = std::chrono::microseconds(100);  // a program does other work too
constexpr const char* kRole = "BENCH_WARM_ROLE";                 // what a child of this tool does

/// Products that differ in depth, so that each is a family and a plan of its own.
Case product(int64_t index) {
    Case one;
    one.op = one.name = "gemm";
    one.shape.op = BENCH_GEMM;
    one.shape.groups = 1;
    one.shape.m = 24;
    one.shape.k = 64 + 8 * (index / 8);
    one.shape.n = 96 + 32 * (index % 8);
    return one;
}

/// The products with their operands; every call that no plan answers is counted.
struct Workload {
    struct Entry {
        Case one;
        whet_site* site = nullptr;
        bool served = false;
    };
    std::vector<Entry> entries;
    Floats dst, a, b;
    const Entry* current = nullptr;
    bool missed = false;
    bool compute = false;  ///< whether a miss computes, as a live program's would

    explicit Workload(int64_t plans) : entries(static_cast<size_t>(plans)) {
        int64_t largest = 0;
        for (int64_t i = 0; i < plans; ++i) {
            Case& one = entries[static_cast<size_t>(i)].one = product(i);
            largest = std::max({largest, count_of(one.dst_extents()), count_of(one.a_extents()),
                                count_of(one.b_extents())});
        }
        dst = random_floats(largest, 1);
        a = random_floats(largest, 2);
        b = random_floats(largest, 3);
    }

    static void on_miss(void* user) {
        auto& self = *static_cast<Workload*>(user);
        self.missed = true;
        if (self.compute)
            compute_reference(self.current->one.shape, self.dst.get(), self.a.get(), self.b.get(),
                              nullptr);
    }
    static void background(const whet_op*, void* const* operands, void* context) {
        compute_reference(static_cast<const Entry*>(context)->one.shape,
                          static_cast<float*>(operands[WHET_DST]),
                          static_cast<const float*>(operands[WHET_A]),
                          static_cast<const float*>(operands[WHET_B]), nullptr);
    }

    bool open() {
        for (Entry& entry : entries) {
            whet_op op;
            if (describe(entry.one, false, &op) != WHET_OK ||
                whet_site_get(&op, &entry.site) != WHET_OK)
                return false;
            whet_site_set_original(entry.site, background, &entry);
        }
        return true;
    }

    /// Calls what no plan has answered yet; returns how many a plan has answered by now.
    int64_t round() {
        int64_t served = 0;
        for (Entry& entry : entries) {
            if (!entry.served) {
                void* operands[3] = {dst.get(), a.get(), b.get()};
                current = &entry;
                missed = false;
                if (whet_site_call(entry.site, operands, 3, on_miss, this) == WHET_OK)
                    entry.served = !missed;
            }
            served += entry.served;
        }
        return served;
    }
};

/// Whether the memory map of a process holds LLVM.
bool maps_llvm(const std::string& pid) {
    std::ifstream file("/proc/" + pid + "/maps");
    for (std::string line; std::getline(file, line);)
        if (line.find("libwhet_llvm") != std::string::npos ||
            line.find("libLLVM") != std::string::npos)
            return true;
    return false;
}

/// Whether this process, or a helper in its process group, maps LLVM.
bool llvm_mapped() {
    if (maps_llvm("self")) return true;
    DIR* folder = opendir("/proc");
    bool found = false;
    while (const dirent* entry = folder ? readdir(folder) : nullptr) {
        const pid_t pid = std::atoi(entry->d_name);
        if (pid > 0 && getpgid(pid) == getpgrp()) found = found || maps_llvm(entry->d_name);
    }
    if (folder) closedir(folder);
    return found;
}

int fill(int64_t plans) {
    Workload work(plans);
    work.compute = true;
    if (!work.open()) return kFailed;
    const int64_t end = now_ns() + static_cast<int64_t>(kFillSecondsPerPlan * 1e9) * (plans + 10);
    int64_t served = 0, searching_since = 0;
    while (now_ns() < end && !stop_requested()) {
        served = work.round();
        show_progress("filling the store: " + std::to_string(served) + " of " +
                      std::to_string(plans) + " plans");
        if (served == plans && searching_since == 0 && forge_facts().trials > 0)
            searching_since = now_ns();
        if (searching_since > 0 &&
            static_cast<double>(now_ns() - searching_since) > kSaveSeconds * 1e9)
            break;
        if (served == plans && whet_drain(0) == WHET_OK) break;
        std::this_thread::sleep_for(std::chrono::milliseconds(served == plans ? 50 : 5));
    }
    if (served == plans) return kDone;
    complain("only " + std::to_string(served) + " of " + std::to_string(plans) +
             " products were tuned into the store");
    return served > 0 ? kDone : kFailed;
}

int measure(int64_t plans) {
    Workload work(plans);
    const int64_t begin = now_ns();
    if (!work.open()) return kFailed;
    int64_t served = 0, last = begin;
    for (int64_t best = 0;
         served < plans && now_ns() - begin < static_cast<int64_t>(kWarmSeconds * 1e9);) {
        served = work.round();
        if (served > best) last = now_ns();
        best = served;
        std::this_thread::sleep_for(kBetweenRounds);
    }
    const nlohmann::json document{{"ms", static_cast<double>(last - begin) * 1e-6},
                                  {"plans", served},
                                  {"llvm_mapped", llvm_mapped()}};
    std::printf("%s\n", document.dump().c_str());
    std::fflush(stdout);
    return served == plans ? kDone : kFailed;
}

/// Runs this tool again in a role; its output goes to `out_path`.
int run_role(const char* role, int64_t plans, const std::string& out_path, bool tune) {
    return run_self({"bench", "warm", "--plans", std::to_string(plans)},
                    {{kRole, role}, {"WHET_TUNE", tune ? "on" : "off"}}, out_path);
}

}  // namespace

int bench_warm(const Options& options) {
    const std::string out = std::string(std::getenv("WHET_STORE")) + ".out";
    if (run_role("fill", options.plans, out, true) != kDone) {
        complain("the store could not be filled");
        return kFailed;
    }
    const int status = run_role("measure", options.plans, out, false);
    std::ifstream file(out);
    const nlohmann::json document = nlohmann::json::parse(file, nullptr, false);
    if (!document.is_object()) {
        complain("the measured process gave no result");
        return kFailed;
    }
    if (status != kDone)
        complain("only " + document["plans"].dump() + " of " + std::to_string(options.plans) +
                 " plans came");
    const int finished = finish_flat(options, document.dump());
    return status == kDone ? finished : kFailed;
}

bool run_warm_role(const Options& options, int* exit_code) {
    const char* value = std::getenv(kRole);
    if (!value) return false;
    const std::string role = value;
    unsetenv(kRole);
    install_stop_handler();
    *exit_code = role == "fill" ? fill(options.plans) : measure(options.plans);
    return true;
}

}  // namespace whet::bench
