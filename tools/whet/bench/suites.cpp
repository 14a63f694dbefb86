// SPDX-License-Identifier: Apache-2.0
#include "tools/whet/bench/suites.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <stdexcept>
#include <utility>

#include "tools/whet/bench/facts.hpp"
#include "tools/whet/bench/paths.hpp"
#include "tools/whet/bench/self_process.hpp"
#include "tools/whet/bench/timing.hpp"

namespace whet::bench {
namespace {

constexpr double kCompareSeconds = 1.2;  // with each peer
constexpr double kControlSeconds = 0.8;  // with itself
constexpr int kMostRepetitions = 3;      // of a case whose self-control misses 1
constexpr double kMostDifference =
    1e-3;  // of the largest magnitude: far above rounding, far below a wrong answer
constexpr double kVisitSeconds = 15;  // for the background to pack a rotation of frozen weights

double bound_us(const Case& one, const Machine& machine) {
    const double by_peak = machine.peak_gflops > 0 ? one.flops() / machine.peak_gflops : 0;
    const double by_stream = machine.stream_gbs > 0 ? one.bytes() / machine.stream_gbs : 0;
    return std::max(by_peak, by_stream) * 1e-3;
}

nlohmann::json settings_of(const Options& options, const Party& party) {
    nlohmann::json versions = nlohmann::json::object();
    for (const Peer& peer : party.peers) versions[peer.name] = peer.module->version_text();
    return {{"suites", options.suites},     {"peers", options.peers},
            {"threads", options.threads},   {"frozen", options.frozen},
            {"numerics", options.numerics}, {"budget_seconds", options.budget_seconds},
            {"only", options.only},         {"peer_versions", versions},
            {"whet", whet_version()}};
}

}  // namespace

void prepare_environment(const Options& options, const std::string& folder) {
    setenv("WHET_STORE", (folder + "/store.db").c_str(), 1);
    setenv("WHET_NUMERICS", options.numerics.c_str(), 1);
    // The budget of a case is seconds of one core, whoever else is on this machine. A program keeps
    // its own settings.
    if (options.command.empty()) setenv("WHET_BUDGET_CPU", "1", 0);
}

Party open_party(const Options& options) {
    Party party;
    party.peers = open_peers(options.peers, options.threads);
    for (const char* name : {"torch", "openblas"}) {
        try {
            party.originals.push_back(open_peers({name}, options.threads).front());
        } catch (const std::runtime_error&) {
            // The next candidate, at last the bench's own loops, is the original then.
        }
    }
    party.allocator = allocator_of(party.originals.empty() ? party.peers : party.originals);
    return party;
}

std::vector<Case> load_cases(const Options& options) {
    std::vector<Case> cases;
    for (const std::string& suite : options.suites)
        for (const Case& one : load_suite(suite))
            if (options.only.empty() || options.only == one.op) cases.push_back(one);
    if (cases.empty()) throw std::invalid_argument("no case to run");
    return cases;
}

std::vector<std::vector<Case>> by_family(const std::vector<Case>& cases) {
    std::vector<std::vector<Case>> families;
    for (const Case& one : cases) {
        const auto found =
            std::find_if(families.begin(), families.end(), [&](const std::vector<Case>& family) {
                return family.front().family() == one.family();
            });
        if (found == families.end())
            families.push_back({one});
        else
            found->push_back(one);
    }
    return families;
}

FamilyRun::FamilyRun(const std::vector<Case>& cases, const Options& options, const Party& party,
                     double last_level_bytes)
    : options_(options), party_(party), last_level_bytes_(last_level_bytes) {
    for (const Case& one : cases) add(one);
}

size_t FamilyRun::add(const Case& one) {
    std::shared_ptr<const Weights> weights = shared_;
    if (!weights)
        weights = std::make_shared<const Weights>(one, last_level_bytes_, options_.frozen);
    if (one.has_weights()) shared_ = weights;
    sites_.push_back(std::make_unique<LiveSite>(one, weights, options_.frozen, options_.threads,
                                                Original::make(one, party_.originals),
                                                party_.allocator));
    return sites_.size() - 1;
}

std::vector<LiveSite*> FamilyRun::all() const {
    std::vector<LiveSite*> list;
    for (const auto& site : sites_) list.push_back(site.get());
    return list;
}

void FamilyRun::tune(double seconds, const std::string& label) {
    const std::vector<LiveSite*> sites = all();
    const ForgeFacts before = forge_facts();
    tune_seconds_ =
        tune_live(sites, seconds * static_cast<double>(sites.size()), [&](double spent) {
            char line[256];
            std::snprintf(line, sizeof line, "%s: tuning, %.0f of %.0f s", label.c_str(), spent,
                          seconds * static_cast<double>(sites.size()));
            show_progress(line);
        });
    const ForgeFacts after = forge_facts();
    const auto share = static_cast<double>(sites.size());
    tune_seconds_ /= share;
    trials_ = static_cast<double>(after.trials - before.trials) / share;
    compiles_ = static_cast<double>(after.compiles - before.compiles) / share;
    visit_all_weights(sites, kVisitSeconds);
}

CaseResult FamilyRun::compare(size_t index, const Machine& machine) const {
    LiveSite& site = *sites_[index];
    const Case& one = site.one();
    CaseResult result;
    result.suite = one.suite;
    result.name = one.name;
    result.op = one.op;
    result.family = one.family();
    result.bound_us = bound_us(one, machine);
    result.tune_seconds = tune_seconds_;
    const double difference = site.difference();
    if (!(difference <= kMostDifference))
        throw std::runtime_error("case " + one.name +
                                 ": the answer differs from the original's by " +
                                 std::to_string(difference) + " of the largest magnitude");

    const auto prepare = [&] { site.warm(); };
    const Side whet = [&](int64_t calls) { site.calls(calls); };
    const std::vector<const float*>& copies = site.weights().copies();
    const auto count = static_cast<int64_t>(copies.size());
    for (int repetition = 0; repetition < kMostRepetitions && !stop_requested(); ++repetition) {
        const int64_t calls_before = site.total_calls(), fallbacks_before = site.fallbacks();
        const Comparison control = bench::compare(whet, whet, prepare, kControlSeconds, 11,
                                                  [&](int layout) { site.lay_out(layout); });
        result.control = control.ratio;
        result.whet_us = control.a_us;
        result.peers.clear();
        for (const Peer& peer : party_.peers) {
            char error[512] = "";
            const Runnable runnable(
                peer.module->make(peer.name.c_str(), &one.shape, site.a(), copies.data(), count,
                                  site.weights().bias(), error, sizeof error),
                RunnableDeleter{peer.module});
            if (!runnable) continue;  // a peer that has no such operator has no entry in this case
            const Side other = [&](int64_t calls) {
                for (int64_t i = 0; i < calls; ++i)
                    peer.module->run(runnable.get(), site.next_copy());
            };
            const LayOut lay_out = [&](int layout) {
                site.lay_out(layout);
                peer.module->move_a(runnable.get(), site.a());
            };
            const Comparison comparison =
                bench::compare(whet, other, prepare, kCompareSeconds, 12, lay_out);
            result.peers[peer.name] = {comparison.b_us, comparison.ratio};
        }
        const int64_t calls = site.total_calls() - calls_before,
                      missed = site.fallbacks() - fallbacks_before;
        result.served = 2 * missed < calls;
        result.control_holds = result.control.holds(1.0);
        if (result.control_holds) break;
    }
    const SiteFacts facts = facts_of(one);
    if (result.served) result.schedule = facts.schedule;
    result.reason = facts.reason;
    result.trials = static_cast<int64_t>(trials_);
    result.compiles = static_cast<int64_t>(compiles_);
    return result;
}

namespace {

// What the parent tells the child that measures one family.
constexpr const char* kFamily = "BENCH_FAMILY";
constexpr const char* kFamilyOut = "BENCH_FAMILY_OUT";
constexpr const char* kFamilyLabel = "BENCH_FAMILY_LABEL";
constexpr const char* kPeak = "BENCH_PEAK_GFLOPS";
constexpr const char* kStream = "BENCH_STREAM_GBS";

std::set<std::pair<std::string, std::string>> names_of(const std::vector<CaseResult>& results) {
    std::set<std::pair<std::string, std::string>> names;
    for (const CaseResult& one : results) names.insert({one.suite, one.name});
    return names;
}

/// The cases of a family that an earlier run has not measured.
std::vector<Case> missing_of(const std::vector<Case>& family,
                             const std::vector<CaseResult>& results) {
    const auto done = names_of(results);
    std::vector<Case> missing;
    for (const Case& one : family)
        if (!done.contains({one.suite, one.name})) missing.push_back(one);
    return missing;
}

int measure_family(const Options& options, const std::vector<Case>& cases, const std::string& label,
                   Result& result) {
    const Party party = open_party(options);
    result.settings = settings_of(options, party);
    FamilyRun run(cases, options, party, result.machine.last_level_bytes);
    run.tune(options.budget_seconds, label);
    whet_pause();
    int status = kDone;
    for (size_t index = 0; index < run.size() && !stop_requested(); ++index) {
        show_progress(label + " " + cases[index].name + ": timing");
        try {
            result.cases.push_back(run.compare(index, result.machine));
        } catch (const std::runtime_error& failure) {
            complain(failure.what());
            status = kFailed;
        }
    }
    return status;
}

std::string number_text(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", value);
    return text;
}

/// Cases in the order of the suites, whatever the order of families.
void sort_as(const std::vector<Case>& cases, std::vector<CaseResult>& results) {
    const auto position = [&](const CaseResult& result) {
        const auto found = std::find_if(cases.begin(), cases.end(), [&](const Case& one) {
            return one.suite == result.suite && one.name == result.name;
        });
        return found - cases.begin();
    };
    std::stable_sort(results.begin(), results.end(), [&](const CaseResult& a, const CaseResult& b) {
        return position(a) < position(b);
    });
}

}  // namespace

bool run_family_role(const Options& options, int* exit_code) {
    const char* family = std::getenv(kFamily);
    if (!family) return false;
    install_stop_handler();
    const std::string out = std::getenv(kFamilyOut), label = std::getenv(kFamilyLabel);
    Result result;
    result.machine = describe_machine();
    result.machine.peak_gflops = std::atof(std::getenv(kPeak));
    result.machine.stream_gbs = std::atof(std::getenv(kStream));
    std::vector<Case> cases;
    for (const std::vector<Case>& one : by_family(load_cases(options)))
        if (one.front().family() == family)
            cases = missing_of(
                one, options.resume ? read_cases(options.json) : std::vector<CaseResult>());
    *exit_code = cases.empty() ? kDone : measure_family(options, cases, label, result);
    if (!write_json(out, to_json(result))) *exit_code = kFailed;
    return true;
}

/// Every family is measured in a process of its own: what an earlier one left open (search, packed
/// weights) cannot cost a later one anything, and one that crashes is one that fails. The store is
/// empty at the start and theirs together.
int bench_suites(const Options& options) {
    const std::vector<Case> cases = load_cases(options);
    const Party party = open_party(options);  // says at once when a peer is missing
    Result result;
    result.machine = describe_machine();
    show_progress("measuring this machine");
    measure_machine(result.machine, options.threads);
    result.settings = settings_of(options, party);
    if (options.resume) result.cases = read_cases(options.json);

    bool failed = false;
    const std::vector<std::vector<Case>> families = by_family(cases);
    const std::string out = std::string(std::getenv("WHET_STORE")) + ".family.json";
    for (size_t i = 0; i < families.size() && !stop_requested(); ++i) {
        const std::vector<Case> missing = missing_of(families[i], result.cases);
        if (missing.empty()) continue;
        const std::string family = missing.front().family();
        const int status =
            run_self(options.arguments,
                     {{kFamily, family},
                      {kFamilyOut, out},
                      {kFamilyLabel, std::to_string(i + 1) + "/" + std::to_string(families.size())},
                      {kPeak, number_text(result.machine.peak_gflops)},
                      {kStream, number_text(result.machine.stream_gbs)}},
                     "");
        const std::vector<CaseResult> measured = read_cases(out);
        std::remove(out.c_str());
        result.cases.insert(result.cases.end(), measured.begin(), measured.end());
        if (status != kDone && !stop_requested()) {
            complain(family + ": not all cases were measured, the process ended with " +
                     std::to_string(status));
            failed = true;
        }
        sort_as(cases, result.cases);
        if (!write_json(options.json, to_json(result))) complain("cannot write " + options.json);
    }
    show_progress("");
    if (stop_requested()) complain("stopped; --resume goes on from the file of --json");
    std::fputs(table_of(result).c_str(), stdout);
    if (!write_json(options.json, to_json(result))) {
        complain("cannot write " + options.json);
        return kFailed;
    }
    return failed || stop_requested() ? kFailed : kDone;
}

}  // namespace whet::bench
