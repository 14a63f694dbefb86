// SPDX-License-Identifier: Apache-2.0
// `whet bench tuner`: how many candidates a second are built, verified and timed, and what is left
// behind by them.
//
// The suite's operations that take less than a millisecond are called as a live program would call
// them, and the default search tunes them until it has timed the number of candidates that was
// asked for; where it settles earlier, it goes on.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tools/whet/bench/facts.hpp"
#include "tools/whet/bench/options.hpp"
#include "tools/whet/bench/suites.hpp"
#include "tools/whet/bench/timing.hpp"

namespace whet::bench {
namespace {

constexpr double kLongestCallUs = 1000;  // operations above are left out
// Of one core; ten times the bar: more is a failure, not patience. The forge runs at idle priority,
// so the clock on the wall gets several times that.
constexpr double kMostSecondsPerCandidate = 0.1;
constexpr double kLeastSeconds = 10, kWallOverCpu = 5;
constexpr double kWarmUpShare = 0.2;  // of the candidates, before memory is watched

/// One look at the forge.
struct Sample {
    double candidates = 0, private_bytes = 0, mappings = 0;
};

double private_bytes_of(int64_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/smaps_rollup");
    double kilobytes = 0, sum = 0;
    for (std::string word; file >> word;)
        if ((word == "Private_Clean:" || word == "Private_Dirty:") && file >> kilobytes)
            sum += kilobytes * 1024;
    return sum;
}

double mappings_of(int64_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/maps");
    double lines = 0;
    for (std::string line; std::getline(file, line);) ++lines;
    return lines;
}

/// Bytes per candidate: the slope through all pairs of samples (Theil 1950, Sen 1968), which single
/// jumps do not move.
double slope_of(const std::vector<Sample>& samples) {
    std::vector<double> slopes;
    for (size_t i = 0; i < samples.size(); ++i)
        for (size_t j = i + 1; j < samples.size(); ++j)
            if (samples[j].candidates > samples[i].candidates)
                slopes.push_back((samples[j].private_bytes - samples[i].private_bytes) /
                                 (samples[j].candidates - samples[i].candidates));
    return median_of(slopes);
}

/// From the first third of the samples to the last, medians: a sample that falls into a trial sees
/// the trial's own mappings.
double mappings_growth_of(const std::vector<Sample>& samples) {
    std::vector<double> early, late;
    for (size_t i = 0; i < samples.size(); ++i) {
        if (3 * i < samples.size()) early.push_back(samples[i].mappings);
        if (3 * i >= 2 * samples.size()) late.push_back(samples[i].mappings);
    }
    return median_of(late) - median_of(early);
}

/// Of one call of the original, without making the operation known to Whet: what is left out must
/// not be tuned.
double original_us(const Case& one, const Options& options, const Party& party) {
    const Original* const original = Original::make(one, party.originals);
    const Weights weights(one, 0, options.frozen);
    const int64_t values = count_of(one.a_extents());
    const Floats a = random_floats(values, 1);
    std::vector<float> dst(static_cast<size_t>(count_of(one.dst_extents())));
    return time_alone_ns(
               [&](int64_t calls) {
                   for (int64_t i = 0; i < calls; ++i)
                       original->run(dst.data(), a.get(), weights.copies().front(), weights.bias());
               },
               [&] { touch(a.get(), values); }, 0.02) *
           1e-3;
}

/// Where everything is settled before enough candidates were timed, the search goes on. False: it
/// has nothing left to try.
bool search_on() {
    std::string answer;
    const auto append = [](const char* text, size_t length, void* to) {
        static_cast<std::string*>(to)->append(text, length);
    };
    return whet_text_call("continue", append, &answer) == WHET_OK && std::atoi(answer.c_str()) > 0;
}

}  // namespace

int bench_tuner(const Options& options) {
    setenv("WHET_FORGE", options.forge.c_str(), 1);
    Options with_suite = options;
    if (with_suite.suites.empty()) with_suite.suites = {"anchors"};
    const std::vector<Case> cases = load_cases(with_suite);
    const Party party = open_party(with_suite);
    std::vector<std::unique_ptr<FamilyRun>> runs;
    std::vector<LiveSite*> sites;
    for (const Case& one : cases) {
        if (stop_requested()) break;
        show_progress("choosing operations: " + one.name);
        if (original_us(one, with_suite, party) >= kLongestCallUs) continue;
        auto run = std::make_unique<FamilyRun>(std::vector<Case>{one}, with_suite, party, 0.0);
        if (!run->site(0).known()) continue;
        sites.push_back(&run->site(0));
        runs.push_back(std::move(run));
    }
    if (sites.empty()) {
        complain("no operation of the suite takes less than a millisecond");
        return kFailed;
    }
    // Counted from the first trial on: before it come the first plans of all operations, which are
    // no trials.
    ForgeFacts start = forge_facts();
    std::vector<Sample> samples;
    const int64_t begin = now_ns();
    const double limit =
        kMostSecondsPerCandidate * static_cast<double>(options.candidates) + kLeastSeconds;
    ForgeFacts facts = start;
    while (!stop_requested() && facts.trials - start.trials < options.candidates &&
           facts.forge_cpu_seconds - start.forge_cpu_seconds < limit &&
           static_cast<double>(now_ns() - begin) * 1e-9 < kWallOverCpu * limit) {
        tune_live(sites, 0.5, nullptr);
        facts = forge_facts();
        if (start.trials == 0 && facts.trials > 0) start = facts;
        const int64_t done = facts.trials - start.trials;
        show_progress(std::to_string(done) + " of " + std::to_string(options.candidates) +
                      " candidates");
        const int64_t pid = facts.pid > 0 ? facts.pid : getpid();
        if (static_cast<double>(done) >= kWarmUpShare * static_cast<double>(options.candidates))
            samples.push_back({static_cast<double>(done), private_bytes_of(pid), mappings_of(pid)});
        if (done < options.candidates && whet_drain(0) == WHET_OK && !search_on()) break;
    }
    const double cpu_seconds = facts.forge_cpu_seconds - start.forge_cpu_seconds;
    const auto trials = static_cast<double>(facts.trials - start.trials);
    const auto without =
        static_cast<double>(facts.trials_without_compile - start.trials_without_compile);
    nlohmann::json document{
        {"trials", trials},
        {"trials_per_s", cpu_seconds > 0 ? trials / cpu_seconds : 0.0},
        {"no_compile_share", trials > 0 ? without / trials : 0.0},
        {"build_ms_p50", facts.build_ms_p50},
        {"build_ms_p95", facts.build_ms_p95},
        {"bytes_per_candidate", slope_of(samples)},
        {"mappings_growth", mappings_growth_of(samples)},
        {"cpu_seconds", cpu_seconds},
        {"wall_seconds", static_cast<double>(now_ns() - begin) * 1e-9},
        {"operations", sites.size()},
        {"forge", options.forge}};
    const int finished = finish_flat(options, document.dump());
    if (trials >= static_cast<double>(options.candidates)) return finished;
    complain("only " + std::to_string(static_cast<int64_t>(trials)) + " of " +
             std::to_string(options.candidates) + " candidates were timed");
    return kFailed;
}

}  // namespace whet::bench
