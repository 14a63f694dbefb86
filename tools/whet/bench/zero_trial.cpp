// SPDX-License-Identifier: Apache-2.0
// `whet bench zero-trial`: how good the first plan is, before any trial, against the plan after the
// budget.
//
// The two are never there at once, so each is compared side by side with the original; the original
// cancels out.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "tools/whet/bench/options.hpp"
#include "tools/whet/bench/suites.hpp"
#include "tools/whet/bench/timing.hpp"

namespace whet::bench {
namespace {

constexpr double kFirstPlanSeconds = 30;  // wait for the first plan at most
constexpr double kCompareSeconds = 1.0;

/// Calls until a plan answers. False: none came.
bool wait_for_plan(LiveSite& site) {
    const int64_t end = now_ns() + static_cast<int64_t>(kFirstPlanSeconds * 1e9);
    while (site.known() && now_ns() < end && !stop_requested()) {
        site.call();
        if (site.last_was_served()) return true;
        std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    return false;
}

Comparison against_original(LiveSite& site) {
    return compare([&](int64_t calls) { site.calls(calls); },
                   [&](int64_t calls) {
                       for (int64_t i = 0; i < calls; ++i) site.call_original();
                   },
                   [&] { site.warm(); }, kCompareSeconds, 3,
                   [&](int layout) { site.lay_out(layout); });
}

Interval quotient(const Interval& first, const Interval& tuned) {
    return {first.ratio / tuned.ratio, first.low / tuned.high, first.high / tuned.low};
}

}  // namespace

int bench_zero_trial(const Options& options) {
    setenv("WHET_FORCE", "whet",
           0);  // plan against plan: the first one serves whatever the original's time is
    const std::vector<Case> cases = load_cases(options);
    const Party party = open_party(options);
    const Machine machine = describe_machine();
    nlohmann::json rows = nlohmann::json::array();
    std::vector<Interval> ratios;
    std::printf("%-24s %12s %12s  %s\n", "case", "first us", "tuned us",
                "tuned / first [low, high]");
    for (size_t i = 0; i < cases.size() && !stop_requested(); ++i) {
        const Case& one = cases[i];
        const std::string label =
            std::to_string(i + 1) + "/" + std::to_string(cases.size()) + " " + one.name;
        show_progress(label + ": first plan");
        FamilyRun run({one}, options, party, machine.last_level_bytes);
        LiveSite& site = run.site(0);
        whet_resume();
        const bool served = wait_for_plan(site);
        whet_pause();
        if (!served) {
            show_progress("");
            std::printf("%-24s %12s\n", one.name.c_str(), "original");
            rows.push_back({{"name", one.name}, {"served", "original"}});
            continue;
        }
        visit_all_weights({&site}, kFirstPlanSeconds);
        const Comparison first = against_original(site);
        whet_resume();
        run.tune(options.budget_seconds, label);
        whet_pause();
        const Comparison tuned = against_original(site);
        const Interval ratio = quotient(first.ratio, tuned.ratio);
        if (tuned.a_us >= 1.0) ratios.push_back(ratio);
        show_progress("");
        std::printf("%-24s %12.2f %12.2f  %.3f [%.3f, %.3f]\n", one.name.c_str(), first.a_us,
                    tuned.a_us, ratio.ratio, ratio.low, ratio.high);
        std::fflush(stdout);
        rows.push_back({{"name", one.name},
                        {"served", "whet"},
                        {"first_us", first.a_us},
                        {"tuned_us", tuned.a_us},
                        {"ratio", ratio.ratio},
                        {"low", ratio.low},
                        {"high", ratio.high}});
    }
    const Interval mean = geomean_of(ratios);
    std::printf("geomean %.3f [%.3f, %.3f] of %zu cases\n", mean.ratio, mean.low, mean.high,
                ratios.size());
    const nlohmann::json document{
        {"geomean", mean.ratio}, {"low", mean.low}, {"high", mean.high}, {"cases", rows}};
    if (!write_json(options.json, document)) {
        complain("cannot write " + options.json);
        return kFailed;
    }
    return stop_requested() || ratios.empty() ? kFailed : kDone;
}

}  // namespace whet::bench
