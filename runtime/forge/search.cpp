// SPDX-License-Identifier: Apache-2.0
// The forge's search: which site, which schedules, trials against the best so far, and when it is
// enough.
#include <sys/file.h>

#include <algorithm>
#include <cstdio>

#include "runtime/forge/workshop.hpp"

namespace whet::runtime::forge {
namespace {

constexpr int kThoroughQuads = 30;  ///< of a promising candidate that ten quads left open
constexpr size_t kDrafts = 96;      ///< ranked by the analytical model before anything is built
constexpr int kBatch = 4;           ///< trials of one step: the socket is looked at in between
constexpr double kLongCallNs = 20e6;  ///< ... of a longer operation, a single one
constexpr double kOfferGain =
    0.97;  ///< a better plan is offered when it takes less than this part of the offered one
constexpr double kTrialsPerCompile =
    12;  ///< at most one trial in so many may compile, after the first kFreeCompiles
constexpr uint64_t kFreeCompiles = 8;
constexpr size_t kMostDeferred =
    24;  ///< proposals waiting for a compile; with more, the search needs them
constexpr uint64_t kFreshTurn = 3;  ///< while a search runs, one step in so many is a first plan
constexpr uint64_t kOpenTurn = 6;   ///< ... or begins the search of one more site
constexpr size_t kLayouts = 3;      ///< packed layouts that are timed before a family's is chosen
constexpr int64_t kOwnReferenceNs =
    200'000'000;  ///< the reference for the best plan, when the search begins

/// Holds the measuring lock of this user and machine.
class MeasuringLock {
public:
    explicit MeasuringLock(int file) : file_(file) {
        if (file_ >= 0) flock(file_, LOCK_EX);
    }
    ~MeasuringLock() {
        if (file_ >= 0) flock(file_, LOCK_UN);
    }
    MeasuringLock(const MeasuringLock&) = delete;
    MeasuringLock& operator=(const MeasuringLock&) = delete;

private:
    int file_;
};

}  // namespace

TrialResult Workshop::run_trial(Site& site, const Candidate& candidate, const Candidate* incumbent,
                                const TrialOptions& options) {
    const MeasuringLock lock(options.measure ? measure_lock_.get() : -1);
    return executor_->trial(site.op, candidate, incumbent, options);
}

bool Workshop::compile_allowed() const {
    return static_cast<double>(kernels_.compiles()) <
           kFreeCompiles + static_cast<double>(trials_) / kTrialsPerCompile;
}

/// Only arithmetic bounds a trial from below: its activations are warm, so their bytes may come
/// faster than the stream bandwidth that the reported bound counts with.
double Workshop::compute_bound_ns(const Site& site) const {
    const double peak = stored_.machine.peak_gflops * std::max<uint32_t>(site.op.threads, 1);
    return peak > 0 && settings_.isa != jit::Isa::portable ? jit::flops_of(site.op) / peak : 0;
}

/// Gives the fresh site that costs the program most its first plan.
void Workshop::plan_heaviest(std::deque<SiteId>::iterator heaviest) {
    Site& site = *sites_.at(*heaviest);
    fresh_.erase(heaviest);
    if (site.has_best || site.stage == Site::Stage::closed) return;
    const auto stage = site.stage;
    zero_trial(site);
    if (stage == Site::Stage::open && site.stage == Site::Stage::served)
        site.stage = Site::Stage::open;
}

bool Workshop::step() {
    if (!pending_.empty()) write_pending();
    if (offer_ahead()) return true;
    // Then only what the store holds is offered.
    if (settings_.options.tune != base::Tune::on || settings_.options.budget_trials == 0)
        return false;
    ++turn_;
    if (lend_fresh()) return true;
    const bool may_search = may_try();
    const bool searching =
        may_search && std::any_of(sites_.begin(), sites_.end(), [](const auto& entry) {
            return entry.second->stage == Site::Stage::open && entry.second->total_ns > 0;
        });
    const auto heaviest = std::max_element(fresh_.begin(), fresh_.end(), [&](SiteId a, SiteId b) {
        return sites_.at(a)->total_ns < sites_.at(b)->total_ns;
    });
    // A family's first plan comes before everything. Its other row counts borrow that meanwhile, so
    // theirs take turns with the search: a program with a hundred row counts is searched too.
    if (heaviest != fresh_.end() && (!searching || turn_ % kFreshTurn == 0 ||
                                     !families_[sites_.at(*heaviest)->family].planned)) {
        plan_heaviest(heaviest);
        return true;
    }
    if (!may_search) return false;
    Site* next = nullptr;
    for (const auto& [id, site] : sites_) {
        if (site->ahead || (site->stage != Site::Stage::served && !outgrown(*site))) continue;
        if (next == nullptr || site->total_ns > next->total_ns) next = site.get();
    }
    if (next != nullptr && (!searching || turn_ % kOpenTurn == 1)) {
        open_site(*next);
        return true;
    }
    for (;;) {
        const int task = policy_->choose_task();
        if (task < 0) break;
        Site& site = *site_of_task_.at(task);
        if (site.stage != Site::Stage::open) {
            policy_->close(task);  // the program decided meanwhile
            continue;
        }
        step_site(site);
        return true;
    }
    if (heaviest != fresh_.end())
        plan_heaviest(heaviest);
    else if (next != nullptr)
        open_site(*next);
    else
        return false;
    return true;
}

bool Workshop::open_site(Site& site) {
    working_on_ = site.id;
    site.stage = Site::Stage::open;
    if (site.space == nullptr) make_space(site);
    if (site.space == nullptr || site.space->sketch_count() == 0) {
        site.stage = Site::Stage::closed;
        site.note = "no sketch fits the operation";
        return false;
    }
    site.bound_ns = bound_of(site);
    doing_ = "draft";
    std::vector<policy::Proposal> drafts;
    for (const jit::Schedule& schedule : draft(site, kDrafts, false, layout_of(site))) {
        int sketch = 0;
        base::Point point = site.space->point_of(schedule, &sketch);
        if (!point.empty()) drafts.push_back({sketch, std::move(point)});
    }
    site.task = policy_->add_task(*site.space, std::move(drafts));
    site_of_task_[site.task] = &site;
    policy_->set_load(site.task, site.calls_per_s, compute_bound_ns(site));
    if (!site.has_best) return true;

    doing_ = "time the first plan";
    TrialOptions options;
    options.reference_budget_ns = kOwnReferenceNs;
    const TrialResult result = run_trial(site, site.best, nullptr, options);
    if (result.verdict != Verdict::right) {
        // A stored plan that is wrong here: never again, and a first plan takes its place.
        count_refusal(site, result, site.best.schedule.print());
        if (result.verdict == Verdict::failed) return true;
        quarantine(site, site.best.schedule.print(), result.reason);
        site.has_best = false;
        site.best = {};
        fresh_.push_back(site.id);
        return true;
    }
    if (result.measured) {
        site.best_ns = result.candidate_ns;
        site.timed = true;
        site.offered_ns = site.offered_ns > 0 ? site.offered_ns : site.best_ns;
        int sketch = 0;
        const base::Point point = site.space->point_of(site.best.schedule, &sketch);
        if (!point.empty()) {
            policy_->report(site.task, {sketch, point}, {policy::OutcomeKind::timed, site.best_ns});
        }
        save(site);
    }
    return true;
}

/// Chooses the packed layout of a family's frozen operand, once, before anything of the family is
/// offered: the best draft of each of the most promising layouts is timed against the first plan,
/// and the fastest becomes the first plan. Plans of other layouts are not tried afterwards, so that
/// a weight is packed once for all row counts; a later change would need room for two copies.
void Workshop::decide_layout(Site& site, Family& family) {
    doing_ = "choose a layout";
    std::vector<uint64_t> layouts{family.layout};
    const Candidate first = site.best;
    double best_ratio = 1.02;  // as good as even: the first plan needs no compile
    for (const jit::Schedule& schedule : draft(site, kDrafts, false, 0)) {
        if (layouts.size() > kLayouts || !may_try()) break;
        auto plan = jit::lower(site.op, schedule, settings_.isa);
        if (!plan || plan->frozen[WHET_B].id == 0 ||
            std::ranges::find(layouts, plan->frozen[WHET_B].id) != layouts.end())
            continue;
        layouts.push_back(plan->frozen[WHET_B].id);
        auto prepared = prepare(std::move(*plan), schedule, true);
        if (!prepared) continue;
        TrialOptions options;
        options.retest = false;
        const TrialResult result = run_trial(site, prepared->candidate, &first, options);
        ++trials_;
        if (trials_left_ > 0) --trials_left_;
        if (prepared->compiled == 0) ++trials_without_compile_;
        if (result.verdict != Verdict::right) {
            count_refusal(site, result, schedule.print());
        } else if (result.measured && result.ratio > best_ratio &&
                   verified(site, prepared->candidate)) {
            best_ratio = result.ratio;
            family.layout = layouts.back();
            site.best = std::move(prepared->candidate);
        }
    }
}

bool Workshop::step_site(Site& site) {
    working_on_ = site.id;
    if (site.stage == Site::Stage::fresh) {
        std::erase(fresh_, site.id);
        zero_trial(site);
    }
    if (site.stage == Site::Stage::served || site.stage == Site::Stage::rested)
        return open_site(site);
    if (site.stage == Site::Stage::closed) return false;
    if (!site.has_best && std::find(fresh_.begin(), fresh_.end(), site.id) != fresh_.end()) {
        std::erase(fresh_, site.id);
        zero_trial(site);
        if (site.stage == Site::Stage::served) site.stage = Site::Stage::open;
        return true;
    }
    if (site.has_best && !site.timed) {
        TrialOptions options;
        options.reference_budget_ns = kOwnReferenceNs;
        const TrialResult result = run_trial(site, site.best, nullptr, options);
        if (result.verdict == Verdict::right && result.measured) {
            site.best_ns = site.offered_ns = result.candidate_ns;
            site.timed = true;
        }
    }

    doing_ = "search";
    const int batch = site.best_ns > kLongCallNs ? 1 : kBatch;
    int done = 0;
    if (!site.again.empty() && may_try()) {
        const policy::Proposal proposal = std::move(site.again.front());
        site.again.pop_front();
        done += try_proposal(site, proposal, true);
    }
    while (done < batch && !site.deferred.empty() && compile_allowed()) {
        const policy::Proposal proposal = std::move(site.deferred.front());
        site.deferred.pop_front();
        done += try_proposal(site, proposal, true);
    }
    for (const policy::Proposal& proposal : policy_->propose(site.task, batch - done)) {
        if (!may_try()) break;
        if (try_proposal(site, proposal, compile_allowed())) {
            ++done;
            continue;
        }
        site.deferred.push_back(proposal);
    }
    // The oldest give way; without anything else to try, one of them is compiled all the same.
    while (site.deferred.size() > kMostDeferred) {
        const policy::Proposal oldest = std::move(site.deferred.front());
        site.deferred.pop_front();
        if (done++ == 0)
            try_proposal(site, oldest, true);
        else
            policy_->report(site.task, oldest, {policy::OutcomeKind::skipped, 0});
    }
    if (!policy_->settled(site.task)) return true;
    settle(site);  // what is deferred still waits for the day when the search goes on
    return false;
}

/// False when the proposal has to wait for a compile; it has not been tried then.
bool Workshop::try_proposal(Site& site, const policy::Proposal& proposal, bool may_compile) {
    const jit::Schedule schedule = site.space->schedule_at(proposal.sketch, proposal.point);
    if (site.refused.contains(jit::hash_of(schedule))) {
        policy_->report(site.task, proposal, {policy::OutcomeKind::skipped, 0});
        return true;
    }
    auto plan = jit::lower(site.op, schedule, settings_.isa);
    if (!plan || !layout_fits(site, *plan)) {
        policy_->report(site.task, proposal, {policy::OutcomeKind::skipped, 0});
        return true;
    }
    auto prepared = prepare(std::move(*plan), schedule, may_compile);
    if (!prepared) {
        if (prepared.error().code == base::Code::not_found) return false;
        site.note = prepared.error().message;
        outbox_.log(base::Level::info, "not built: " + site.note);
        policy_->report(site.task, proposal, {});
        return true;
    }
    TrialOptions options;
    if (site.tried_again.contains(jit::hash_of(schedule))) options.max_quads = kThoroughQuads;
    const TrialResult result =
        run_trial(site, prepared->candidate, site.has_best ? &site.best : nullptr, options);
    ++trials_;
    ++site.trials;
    if (trials_left_ > 0) --trials_left_;
    if (prepared->compiled == 0) ++trials_without_compile_;
    judge(site, proposal, *prepared, result);
    return true;
}

/// A long operation's trial verified a slice of its tasks: before the candidate may serve, all.
bool Workshop::verified(Site& site, const Candidate& candidate) {
    TrialOptions whole;
    whole.measure = false;
    const TrialResult checked = run_trial(site, candidate, nullptr, whole);
    if (checked.verdict == Verdict::right) return true;
    count_refusal(site, checked, candidate.schedule.print());
    if (checked.verdict != Verdict::failed)
        quarantine(site, candidate.schedule.print(), checked.reason);
    return false;
}

void Workshop::judge(Site& site, const policy::Proposal& proposal, PreparedPlan& prepared,
                     const TrialResult& result) {
    if (result.verdict != Verdict::right) {
        count_refusal(site, result, prepared.candidate.schedule.print());
        if (result.verdict != Verdict::failed) {
            quarantine(site, prepared.candidate.schedule.print(), result.reason);
        }
        policy_->report(site.task, proposal, {});
        return;
    }
    if (!result.measured) {
        policy_->report(site.task, proposal, {});
        return;
    }
    if (!site.has_best) {
        site.has_best = true;
        site.timed = true;
        site.best = std::move(prepared.candidate);
        site.best_ns = result.candidate_ns;
        site.ratio = site.low = site.high = 0;
        if (families_[site.family].layout == 0)
            families_[site.family].layout = prepared.plan.frozen[WHET_B].id;
        policy_->report(site.task, proposal, {policy::OutcomeKind::timed, site.best_ns});
        send_offer(site, OfferKind::tuned);
        save(site);
        return;
    }
    if (log_trials_) {
        char line[160];
        std::snprintf(line, sizeof(line),
                      "ratio=%.3f low=%.3f high=%.3f quads=%d rejected=%d ns=%.0f won=%d trial=",
                      result.ratio, result.low, result.high, result.quads, result.rejected_quads,
                      result.candidate_ns, result.won);
        outbox_.log(base::Level::debug, line + prepared.candidate.schedule.print());
    }
    // Times go to the policy on one scale: that of the best plan's time, by the paired ratio.
    const double ns = site.best_ns / result.ratio;
    policy_->report(site.task, proposal, {policy::OutcomeKind::timed, ns});
    if (!result.won) {
        ++rejected_slow_;
        if (result.promising &&
            site.tried_again.insert(jit::hash_of(prepared.candidate.schedule)).second) {
            site.again.push_back(proposal);
        }
        return;
    }
    if (!verified(site, prepared.candidate)) return;
    const double scale = site.offered_ns > 0 ? site.offered_ns / site.best_ns : 1;
    site.best = std::move(prepared.candidate);
    site.best_ns = ns;
    site.planted.clear();
    site.ratio = result.ratio * scale;
    site.low = result.low * scale;
    site.high = result.high * scale;
    if (site.offered_ns <= 0 || site.best_ns <= kOfferGain * site.offered_ns) {
        send_offer(site, OfferKind::tuned);
        save(site);
    }
}

int Workshop::search_on() {
    int searched = 0;
    for (const auto& [id, site] : sites_) {
        if (site->stage != Site::Stage::open || site->task < 0) continue;
        if (policy_->settled(site->task)) {
            site->settled_total_ns = 0;
            policy_->reopen(site->task);
        }
        searched += !policy_->settled(site->task);
    }
    return searched;
}

void Workshop::settle(Site& site) {
    if (site.settled_total_ns > 0) return;
    site.settled_total_ns = std::max(site.total_ns, 1.0);
    if (site.has_best && site.timed && site.offered_ns > 0 && site.best_ns < site.offered_ns) {
        send_offer(site, OfferKind::tuned);
    }
    save(site);
}

}  // namespace whet::runtime::forge
