// SPDX-License-Identifier: Apache-2.0
// `whet bench dispatch`: nanoseconds that Whet adds to a call, with one caller and with several.
//
// All but `served_ns` are measured with an original that does nothing, so that a call is dispatch
// and nothing else:
//   handle  whet_site_call on a handle that the caller keeps
//   hit     whet_site_get on a known operation, then whet_site_call
//   miss    the same on an operation never seen before (the site is made)
//   bypass  whet_site_call while the table is disabled
//   served  a 1x1x1 product answered by a plan, nest driver and microkernel included, against
//   computing it in place
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "tools/whet/bench/case.hpp"
#include "tools/whet/bench/live_site.hpp"
#include "tools/whet/bench/machine.hpp"
#include "tools/whet/bench/options.hpp"
#include "tools/whet/bench/timing.hpp"

namespace whet::bench {
namespace {

constexpr double kSeconds = 0.5;         // for each number
constexpr int64_t kNewSites = 256;       // for `miss`
constexpr double kServeSeconds = 10;     // wait for a plan at most
constexpr int64_t kCallsPerLook = 2000;  // of a caller, before it looks whether time is over

void nothing(void*) {}
void (*volatile direct_call)(void*) = nothing;

Case product(int64_t m, int64_t k, int64_t n) {
    Case one;
    one.op = one.name = "gemm";
    one.shape.op = BENCH_GEMM;
    one.shape.m = m;
    one.shape.k = k;
    one.shape.n = n;
    one.shape.groups = 1;
    return one;
}

/// One product, called in the three ways.
class Target {
public:
    explicit Target(int64_t rows) : case_(product(rows, 4, 4)) {
        ok_ = describe(case_, false, &op_) == WHET_OK && whet_site_get(&op_, &site_) == WHET_OK;
    }
    bool ok() const { return ok_; }
    void by_handle(int64_t calls) {
        for (int64_t i = 0; i < calls; ++i) whet_site_call(site_, operands_, 3, nothing, nullptr);
    }
    void by_operation(int64_t calls) {
        for (int64_t i = 0; i < calls; ++i) {
            whet_site* site = nullptr;
            whet_site_get(&op_, &site);
            whet_site_call(site, operands_, 3, nothing, nullptr);
        }
    }

private:
    Case case_;
    bool ok_ = false;
    whet_op op_{};
    whet_site* site_ = nullptr;
    alignas(64) float dst_[64] = {}, a_[64] = {}, b_[64] = {};
    void* operands_[3] = {dst_, a_, b_};
};

void direct(int64_t calls) {
    for (int64_t i = 0; i < calls; ++i) direct_call(nullptr);
}

double added_ns(const Side& side) {
    const Comparison comparison = compare(direct, side, [] {}, kSeconds, 1);
    return (comparison.b_us - comparison.a_us) * 1e3;
}

double miss_ns() {
    std::vector<double> samples;
    void* operands[3] = {};
    for (int64_t i = 0; i < kNewSites; ++i) {
        whet_op op;
        if (describe(product(100 + i, 3, 5), false, &op) != WHET_OK) return 0;
        const int64_t begin = now_ns();
        whet_site* site = nullptr;
        whet_site_get(&op, &site);
        if (site) whet_site_call(site, operands, 3, nothing, nullptr);
        samples.push_back(static_cast<double>(now_ns() - begin));
    }
    return median_of(samples);
}

/// Nanoseconds of a hit where `callers` threads call at once, on one site or on a site each.
double callers_ns(int callers, bool one_site) {
    std::vector<std::unique_ptr<Target>> targets;
    for (int i = 0; i < callers; ++i)
        targets.push_back(std::make_unique<Target>(one_site ? 4 : 5 + i));
    std::atomic<int> ready{0};
    std::vector<double> nanoseconds(static_cast<size_t>(callers));
    std::vector<std::thread> threads;
    for (int i = 0; i < callers; ++i)
        threads.emplace_back([&, i] {
            Target& target = *targets[static_cast<size_t>(i)];
            target.by_operation(kCallsPerLook);
            ready.fetch_add(1);
            while (ready.load() < callers) std::this_thread::yield();
            std::vector<double> samples;
            const int64_t end = now_ns() + static_cast<int64_t>(kSeconds * 1e9);
            for (int64_t begin = now_ns(); begin < end;) {
                target.by_operation(kCallsPerLook);
                const int64_t now = now_ns();
                samples.push_back(static_cast<double>(now - begin) /
                                  static_cast<double>(kCallsPerLook));
                begin = now;
            }
            nanoseconds[static_cast<size_t>(i)] = median_of(samples);
        });
    for (std::thread& thread : threads) thread.join();
    return median_of(nanoseconds);
}

/// A served 1x1x1 product against the same in place; 0 when no plan came.
double served_ns() {
    const Case one = product(1, 1, 1);
    whet_op op;
    whet_site* site = nullptr;
    if (describe(one, false, &op) != WHET_OK || whet_site_get(&op, &site) != WHET_OK) return 0;
    float dst = 0, a = 2, b = 3;
    void* operands[3] = {&dst, &a, &b};
    int64_t missed = 0;
    const auto count_miss = [](void* user) { ++*static_cast<int64_t*>(user); };
    const int64_t end = now_ns() + static_cast<int64_t>(kServeSeconds * 1e9);
    for (int64_t before = -1; before != missed && now_ns() < end && !stop_requested();) {
        before = missed;
        whet_site_call(site, operands, 3, count_miss, &missed);
        if (before != missed) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const int64_t before = missed;
    const Comparison comparison = compare(
        [&](int64_t calls) {
            for (int64_t i = 0; i < calls; ++i) {
                direct_call(nullptr);
                dst = a * b;
                asm volatile("" : : "r"(&dst), "r"(&a), "r"(&b) : "memory");
            }
        },
        [&](int64_t calls) {
            for (int64_t i = 0; i < calls; ++i)
                whet_site_call(site, operands, 3, count_miss, &missed);
        },
        [] {}, kSeconds, 2);
    return missed == before ? (comparison.b_us - comparison.a_us) * 1e3 : 0;
}

}  // namespace

int bench_dispatch(const Options& options) {
    setenv("WHET_FORCE", "whet", 1);  // for `served`: nothing is faster than one product in place
    whet_pause();                     // no plan comes for the sites of the other numbers
    Target target(4);
    if (!target.ok()) {
        complain(std::string("no site: ") + whet_last_error());
        return kFailed;
    }
    nlohmann::json document;
    show_progress("handle, hit, miss, bypass");
    document["handle_ns"] = added_ns([&](int64_t calls) { target.by_handle(calls); });
    document["hit_ns"] = added_ns([&](int64_t calls) { target.by_operation(calls); });
    document["miss_ns"] = miss_ns();
    whet_disable();
    document["bypass_ns"] = added_ns([&](int64_t calls) { target.by_handle(calls); });
    whet_enable();
    if (options.callers > 1) {
        show_progress("several callers");
        const double alone = callers_ns(1, true);
        document["callers"] = options.callers;
        document["hit_alone_ns"] = alone;
        document["hit_one_site_ns"] = callers_ns(options.callers, true);
        document["hit_own_sites_ns"] = callers_ns(options.callers, false);
        document["one_site_ratio"] = document["hit_one_site_ns"].get<double>() / alone;
        document["own_sites_ratio"] = document["hit_own_sites_ns"].get<double>() / alone;
    }
    show_progress("a served call");
    whet_resume();
    document["served_ns"] = served_ns();
    return finish_flat(options, document.dump());
}

}  // namespace whet::bench
