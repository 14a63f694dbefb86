// SPDX-License-Identifier: Apache-2.0
// `whet bench unseen`: linear families tuned at the suite's row counts, then measured at others
// without a further trial.
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tools/whet/bench/facts.hpp"
#include "tools/whet/bench/options.hpp"
#include "tools/whet/bench/suites.hpp"

namespace whet::bench {
namespace {

constexpr int64_t kUnseenRows[] = {4, 7, 13, 27, 61, 90, 150, 333};
constexpr double kSettleSeconds = 3;  // for the library to give new row counts their family's plan

Case with_rows(const Case& one, int64_t rows) {
    Case other = one;
    other.shape.m = rows;
    const size_t suffix = other.name.rfind("-m");
    other.name = other.name.substr(0, suffix) + "-m" + std::to_string(rows);
    return other;
}

void hold(const char* request) {
    if (whet_text_call(request, [](const char*, size_t, void*) {}, nullptr) != WHET_OK)
        complain(std::string(request) + ": " + whet_last_error());
}

/// Calls the new row counts until a plan answers each: their family's, or a first one that was
/// never timed. The forge has to run for that, and is held meanwhile: it makes no trial
/// ("further_trials" in the result counts them).
void settle(const std::vector<LiveSite*>& sites) {
    whet_resume();
    const int64_t end = now_ns() + static_cast<int64_t>(kSettleSeconds * 1e9);
    for (bool all = false; !all && now_ns() < end && !stop_requested();) {
        all = true;
        for (LiveSite* site : sites) {
            if (site->known()) site->call();
            all = all && (!site->known() || site->last_was_served());
        }
        if (!all) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    visit_all_weights(sites, kSettleSeconds);
    whet_pause();
}

}  // namespace

int bench_unseen(const Options& options) {
    Options linear_only = options;
    linear_only.only = "linear";
    const std::vector<Case> cases = load_cases(linear_only);
    const Party party = open_party(options);
    Result result;
    result.machine = describe_machine();
    show_progress("measuring this machine");
    measure_machine(result.machine, options.threads);
    result.settings = {{"form", "unseen"},
                       {"suites", options.suites},
                       {"frozen", options.frozen},
                       {"threads", options.threads},
                       {"budget_seconds", options.budget_seconds},
                       {"numerics", options.numerics}};
    bool failed = false;
    for (const std::vector<Case>& family : by_family(cases)) {
        if (stop_requested()) break;
        FamilyRun run(family, options, party, result.machine.last_level_bytes);
        whet_resume();
        run.tune(options.budget_seconds, family.front().family());
        whet_pause();
        hold("hold on");
        const int64_t trials = forge_facts().trials;
        std::vector<LiveSite*> unseen;
        const size_t first = run.size();
        for (const int64_t rows : kUnseenRows)
            unseen.push_back(&run.site(run.add(with_rows(family.front(), rows))));
        settle(unseen);
        for (size_t index = first; index < run.size() && !stop_requested(); ++index) {
            show_progress(run.site(index).one().name + ": timing");
            try {
                result.cases.push_back(run.compare(index, result.machine));
            } catch (const std::runtime_error& failure) {
                complain(failure.what());
                failed = true;
            }
        }
        result.settings["further_trials"] =
            result.settings.value("further_trials", int64_t{0}) + forge_facts().trials - trials;
        hold("hold off");
    }
    show_progress("");
    std::fputs(table_of(result).c_str(), stdout);
    if (!write_json(options.json, to_json(result))) {
        complain("cannot write " + options.json);
        return kFailed;
    }
    return failed || stop_requested() ? kFailed : kDone;
}

}  // namespace whet::bench
