// SPDX-License-Identifier: Apache-2.0
// From offers to published records: trials, the family's one decision, publishing, watching,
// rolling back.
#include <algorithm>
#include <cmath>

#include "base/clock.hpp"
#include "base/hash.hpp"
#include "base/log.hpp"
#include "jit/plan/plan.hpp"
#include "jit/plan/prove.hpp"
#include "runtime/dispatch/operation.hpp"
#include "runtime/runtime.hpp"
#include "runtime/tuner/tuner.hpp"

namespace whet::runtime {
namespace {

using base::Code;
using base::make_error;
using forge::VerdictKind;

constexpr size_t kColdBytes = 6u << 20;        // weights rotate over more than any L2
constexpr double kMostTimingNs = 40e6;         // one background timing, CPU time
constexpr double kEnoughCoverage = 0.5;        // of a family's weight, before it is decided
constexpr int kEnoughTimed =
    8;  // sites: as good as coverage where a family has dozens of row counts
constexpr int64_t kLongestOpenNs = 3'000'000'000;  // then those that were timed decide
constexpr int64_t kLongestTrialNs =
    8'000'000'000;                       // a site that is hardly called takes the forge's word
/// A family's geomean: every better plan asks again, so that chance alone would carry a tie across
/// sooner or later, and what is cached live may not be cached in a contest.
constexpr double kWorthCrossing = 1.03;
constexpr double kClearWin = 1.08;       // this high, it needs no interval
constexpr double kRegret = 0.97;         // live, against the original: then a fresh timing decides
constexpr double kRegretUnpaired = 0.8;  // where no fresh timing is possible
constexpr int kMostRetrials = 3;  // on several threads a busy machine may look like a slow plan
constexpr int64_t kWatchPauseNs = 10'000'000'000;  // between two fresh timings of a family
constexpr uint64_t kLeastLiveSamples = 16;
constexpr int64_t kCalmNs = 5'000'000'000;  // without a new site, before one looks back
constexpr uint64_t kFewSamples = 4;  // of the original: with fewer its time is not known
constexpr size_t kOffersInOneRound = 4;
constexpr uint32_t kAheadPart = 2;  // of the sites, one in so many at most is made ahead

}  // namespace

void Tuner::handle_offers(Lock& lock) {
    // What served before is only bound and published; the others are timed, a few in one round.
    const auto only_bound = [](const forge::OfferMessage& offer) {
        return offer.served_before || offer.kind == forge::OfferKind::lent;
    };
    for (size_t timed = 0; !offers_.empty() && (only_bound(offers_.front()) ||
                                                (timed < kOffersInOneRound &&
                                                 base::steady_ns() >= offers_not_before_ns_));) {
        timed += only_bound(offers_.front()) ? 0 : 1;
        const forge::OfferMessage offer = std::move(offers_.front());
        offers_.pop_front();
        if (offer.ahead) make_site_ahead(offer);
        for (auto& state : sites_) {
            if (state.site->id != offer.site) continue;
            // WHET_PIN: the table is what the store gives.
            const bool pinned_out = runtime_.options.pin && offer.kind != forge::OfferKind::stored;
            if (!state.site->evicted && !pinned_out) consider(state, offer, lock);
            break;
        }
    }
}

/// A stored plan that comes before its operation's first call: the site is made now, so that even
/// that call is served.
void Tuner::make_site_ahead(const forge::OfferMessage& offer) {
    const uint32_t known = runtime_.sites.size();
    if (known >= runtime_.sites.budget() / kAheadPart) return;
    const auto site = runtime_.sites.find_or_make(offer.op);
    adopt_new_sites();
    if (site && (*site)->index >= known && (*site)->index < sites_.size())
        sites_[(*site)->index].ahead = true;
}

void Tuner::consider(SiteState& state, const forge::OfferMessage& offer, Lock& lock) {
    FamilyState& family = family_of(state);
    state.bound_ns = offer.bound_ns;
    if (family.reverted || family.refused.count(offer.schedule)) {
        verdict(state, family.reverted ? VerdictKind::original_kept : VerdictKind::rolled_back,
                offer.schedule, 0);
        return;
    }
    if (state.current && state.current->schedule == offer.schedule &&
        offer.kind != forge::OfferKind::tuned) {
        verdict(state, VerdictKind::adopted, offer.schedule, 1);
        return;
    }
    auto record = make_record(state.site->op, offer.schedule, offer.blobs);
    if (!record) {
        if (runtime_.isa != jit::Isa::portable && !runtime_.code.available())
            return give_up("no executable memory: no more tuning in this process");
        base::log_event(base::Level::info, "tuner", "offer not usable",
                        {{"op", operation_text(state.site->op)}, {"why", record.error().message}});
        verdict(state,
                record.error().code == Code::out_of_budget ? VerdictKind::no_room
                                                           : VerdictKind::declined,
                offer.schedule, 0);
        state.reason = record.error().message;
        return;
    }
    if (state.trial) end_trial(state, TrialVerdict::undecided);
    if (!pack_seen_operands(state, **record, lock)) {
        state.reason = "no room for packed operands (WHET_BUDGET_PACKED)";
        verdict(state, VerdictKind::no_room, offer.schedule, 0);
        return;
    }
    state.pending = Candidate{*record, offer.kind, offer.low, 0, 0};
    if (family.decision == FamilyDecision::whet) {
        if (state.current) {
            begin_trial(state);
        } else {
            publish(state, state.pending->record,
                    offer.kind == forge::OfferKind::lent ? "the plan of a row count nearby"
                                                         : "its family is served by Whet");
            verdict(state, VerdictKind::adopted, offer.schedule, offer.ratio);
            state.pending.reset();
        }
        return;
    }
    // The decision was made in an earlier process on this machine; the watch goes back if it no longer holds.
    if (runtime_.options.force == "whet" || offer.served_before ||
        runtime_.options.numerics == base::Numerics::invariant) {
        cross(family);
        return;
    }
    if (runtime_.options.force == "original") return;
    // Its family is decided by the sites that are searched.
    if (offer.kind == forge::OfferKind::lent) return;
    // One thread in the background cannot tell how several fare: the program's calls do.
    if (state.site->op.threads > 1) return begin_trial(state);
    time_against_original(state, lock);
    if (state.pending) decide_family(family, base::steady_ns());
}

base::Result<Record*> Tuner::make_record(const whet_op& op, const std::string& schedule,
                                         const std::vector<jit::Blob>& blobs) {
    WHET_TRY(const jit::Schedule parsed, jit::Schedule::parse(schedule));
    WHET_TRY(jit::Plan plan, jit::lower(op, parsed, runtime_.isa));
    WHET_TRY_VOID(jit::prove_addresses(plan));
    auto record = std::make_unique<Record>();
    if (runtime_.isa != jit::Isa::portable) {
        for (const auto& spec : plan.kernels) {
            const auto blob = std::find_if(blobs.begin(), blobs.end(), [&](const jit::Blob& one) {
                return one.spec == spec;
            });
            if (blob == blobs.end())
                return make_error(Code::not_found, "no code for microkernel %s",
                                  spec.print().c_str());
            WHET_TRY(const jit::MicrokernelFunction function, 
                     runtime_.code.publish(*blob, perf_name(operation_text(op), spec.print())));
            record->functions.push_back(function);
        }
    }
    for (uint32_t i = 1; i < op.operand_count; ++i) {
        if (plan.frozen[i].id == 0) continue;
        record->packs[i] = runtime_.frozen.set_of(plan.frozen[i]);
        record->pack_mask |= 1u << i;
    }
    plan.private_bytes = (plan.private_bytes + 63) / 64 * 64;
    record->scratch_bytes =
        plan.shared_bytes + plan.private_bytes * std::max<uint32_t>(op.threads, 1);
    record->schedule = schedule;
    record->schedule_hash = jit::hash_of(parsed);
    record->plan = std::move(plan);
    return record.release();
}

bool Tuner::pack_seen_operands(SiteState& state, const Record& record, Lock& lock) {
    if (record.pack_mask == 0) return true;
    const auto seen = state.frozen_seen;
    lock.unlock();
    bool fits = true;
    for (const auto& [operand, pointer] : seen) {
        if (!(record.pack_mask >> operand & 1)) continue;
        const auto packed = runtime_.frozen.pack(record, static_cast<int>(operand), pointer);
        if (!packed && packed.error().code == Code::out_of_budget) fits = false;
    }
    lock.lock();
    return fits;
}

void Tuner::pack_wanted(Lock& lock) {
    while (!wanted_packs_.empty()) {
        const WantedPack wanted = wanted_packs_.front();
        wanted_packs_.pop_front();
        const Record* const record = sites_[wanted.site].current;
        if (!record || !(record->pack_mask >> wanted.operand & 1)) continue;
        lock.unlock();
        const auto packed =
            runtime_.frozen.pack(*record, static_cast<int>(wanted.operand), wanted.pointer);
        lock.lock();
        if (!packed && packed.error().code == Code::out_of_budget &&
            sites_[wanted.site].reason != packed.error().message) {
            sites_[wanted.site].reason = packed.error().message;
            base::log_event(base::Level::info, "tuner", "no room to pack",
                            {{"op", operation_text(sites_[wanted.site].site->op)},
                             {"why", packed.error().message}});
        }
    }
    runtime_.frozen.reclaim();
}

bool Tuner::may_contest() const { return base::steady_ns() >= offers_not_before_ns_; }

/// Waits with the next timing as long as the share of a core wants for what this one took.
void Tuner::keep_to_share(int64_t cpu_ns) {
    const double rest = 1 / std::clamp(share_, 0.01, 1.0) - 1;
    offers_not_before_ns_ =
        base::steady_ns() + static_cast<int64_t>(static_cast<double>(cpu_ns) * rest);
}

base::Result<BackgroundTimes> Tuner::contest(const SiteState& state, const Record& record,
                                             Lock& lock) {
    const whet_original original = state.site->original.load(std::memory_order_acquire);
    void* const context = state.site->original_context.load(std::memory_order_acquire);
    const int64_t began = base::thread_cpu_ns();
    const size_t most_bytes = most_trial_bytes_;
    lock.unlock();
    auto times = timer_.compare(state.site->op, original, context, record, kColdBytes, most_bytes,
                                kMostTimingNs);
    lock.lock();
    keep_to_share(base::thread_cpu_ns() - began);
    return times;
}

void Tuner::time_against_original(SiteState& state, Lock& lock) {
    const whet_original original = state.site->original.load(std::memory_order_acquire);
    const double live = state.original.median_ns();
    if (!original && state.original.count() < 4)
        return;  // decided when there are samples: see check_trials
    const Record& record = *state.pending->record;
    const auto times = contest(state, record, lock);
    if (!state.pending || state.pending->record != &record) return;
    if (!times) {
        state.reason = times.error().message;
        return;
    }
    state.background_plan_ns = times->plan_ns;
    Candidate& candidate = *state.pending;
    if (original) {
        state.background_original_ns = times->original_ns;
        candidate.against_original = times->ratio;
        candidate.against_original_low = times->low;
    } else {
        candidate.against_original = candidate.against_original_low =
            live / std::max(1.0, times->plan_ns);
    }
    base::log_event(base::Level::info, "tuner", "timed against the original",
                    {{"op", operation_text(state.site->op)},
                     {"ratio", candidate.against_original},
                     {"low", candidate.against_original_low},
                     {"plan_us", times->plan_ns * 1e-3},
                     {"quads", times->quads},
                     {"schedule", record.schedule}});
}

void Tuner::decide_family(FamilyState& family, int64_t now) {
    if (family.decision == FamilyDecision::whet || family.reverted) return;
    double all = 0, timed = 0, logs = 0, lows = 0;
    int timed_sites = 0;
    for (const uint32_t index : family.sites) {
        const SiteState& state = sites_[index];
        if (state.pending && state.pending->kind == forge::OfferKind::lent) continue;
        const double ns = std::max({state.background_original_ns, state.original.median_ns(), 1.0});
        const double weight = static_cast<double>(std::max<uint64_t>(state.calls, 1)) * ns;
        all += weight;
        if (!state.pending || state.pending->against_original <= 0) continue;
        timed += weight;
        ++timed_sites;
        logs += weight * std::log(state.pending->against_original);
        lows += weight * std::log(std::max(state.pending->against_original_low, 1e-3));
    }
    if (timed <= 0) return;
    if (family.first_measured_ns == 0) family.first_measured_ns = now;
    if (timed < kEnoughCoverage * all && timed_sites < kEnoughTimed &&
        now - family.first_measured_ns < kLongestOpenNs)
        return;
    const double ratio = std::exp(logs / timed), low = std::exp(lows / timed);
    if ((low > 1 && ratio > kWorthCrossing) || ratio > kClearWin) {
        cross(family);
        return;
    }
    family.decision = FamilyDecision::original;  // until a better plan is offered
    for (const uint32_t index : family.sites) {
        SiteState& state = sites_[index];
        if (!state.pending || state.pending->against_original <= 0) continue;
        state.reason = "the original is faster than the best plan so far";
        ++declined_;
        verdict(state, VerdictKind::declined, state.pending->record->schedule,
                state.pending->against_original);
    }
}

void Tuner::cross(FamilyState& family) {
    family.decision = FamilyDecision::whet;
    std::set<std::string> leads;  // schedules that sites of their own bring
    for (const uint32_t index : family.sites) {
        const auto& pending = sites_[index].pending;
        if (pending && pending->kind != forge::OfferKind::lent)
            leads.insert(pending->record->schedule);
    }
    for (const uint32_t index : family.sites) {
        SiteState& state = sites_[index];
        if (!state.pending || state.current) continue;
        if (state.trial) end_trial(state, TrialVerdict::undecided);
        const Candidate candidate = *state.pending;
        state.pending.reset();
        if (candidate.kind == forge::OfferKind::lent && !leads.contains(candidate.record->schedule))
            continue;  // lent before its leader found a better one: that will be lent
        publish(state, candidate.record, "faster than the original, decided for its family");
        verdict(state, VerdictKind::adopted, candidate.record->schedule,
                candidate.against_original);
    }
}

void Tuner::publish(SiteState& state, const Record* record, const std::string& why) {
    const Record* const old = state.current;
    const_cast<Record*>(record)->baseline = old;  // NOLINT: not published yet
    state.current = record;
    state.reason = why;
    state.calls_at_publish = old ? state.calls_at_publish : state.calls;
    state.serving.clear();
    state.usual_ns = 0;
    state.site->sample_period.store(2, std::memory_order_relaxed);  // until its time is known
    state.site->record.store(record, std::memory_order_release);
    ++published_;
    base::log_event(
        base::Level::info, "tuner", "published",
        {{"op", operation_text(state.site->op)}, {"schedule", record->schedule}, {"why", why}});
    if (!old) return;
    for (int i = 1; i < WHET_MAX_OPERANDS; ++i) {
        if (!old->packs[i]) continue;
        const bool used = std::any_of(sites_.begin(), sites_.end(), [&](const SiteState& other) {
            return (other.current && other.current->packs[i] == old->packs[i]) ||
                   (other.pending && other.pending->record->packs[i] == old->packs[i]) ||
                   (other.parked && other.parked->packs[i] == old->packs[i]);
        });
        if (!used) runtime_.frozen.drop_set(old->packs[i]);
    }
}

void Tuner::begin_trial(SiteState& state) {
    state.trial = std::make_unique<LiveTrial>();
    if (!state.current) state.reason = "a plan is tried against the original on live calls";
    state.trial_began_ns = base::steady_ns();
    set_sample_period(state);
    state.site->challenger.store(state.pending->record, std::memory_order_release);
}

void Tuner::end_trial(SiteState& state, TrialVerdict outcome) {
    state.site->challenger.store(nullptr, std::memory_order_release);
    const auto trial = std::move(state.trial);
    const double ratio = trial->ratio();
    const Candidate candidate = *state.pending;
    if (outcome == TrialVerdict::undecided) {
        set_sample_period(state);
        return;  // pending stays: tried again later
    }
    if (family_of(state).decision != FamilyDecision::whet) {
        // Against the original, on several threads.
        const Centre centre = trial->centre();
        state.pending->against_original = std::exp(centre.median);
        state.pending->against_original_low = std::exp(centre.low);
        return decide_family(family_of(state), base::steady_ns());
    }
    state.pending.reset();
    if (outcome == TrialVerdict::adopt) {
        publish(state, candidate.record, "won its trial on live calls");
        verdict(state, VerdictKind::adopted, candidate.record->schedule, ratio);
    } else {
        ++declined_;
        set_sample_period(state);
        verdict(state, VerdictKind::declined, candidate.record->schedule, ratio);
        for (int i = 1; i < WHET_MAX_OPERANDS; ++i) {
            PackSet* const set = candidate.record->packs[i];
            const bool used =
                set && std::any_of(sites_.begin(), sites_.end(), [&](const SiteState& other) {
                    return (other.current && other.current->packs[i] == set) ||
                           (other.pending && other.pending->record->packs[i] == set);
                });
            if (set && !used) runtime_.frozen.drop_set(set);
        }
    }
}

/// A candidate on several threads whose trial was broken off.
bool Tuner::wants_trial_against_original(const SiteState& state) const {
    return state.site->op.threads > 1 && !state.current && state.pending &&
           state.pending->kind != forge::OfferKind::lent && state.pending->against_original == 0 &&
           runtime_.options.force != "original";
}

void Tuner::check_trials(int64_t now) {
    for (auto& state : sites_) {
        if (state.trial) {
            TrialVerdict outcome = state.trial->verdict();
            if (outcome == TrialVerdict::undecided && state.current &&
                now - state.trial_began_ns > kLongestTrialNs) {
                outcome = state.trial->verdict_at_end(state.pending->low);
            }
            if (outcome != TrialVerdict::undecided) end_trial(state, outcome);
        } else if (state.pending && state.current &&
                   family_of(state).decision == FamilyDecision::whet) {
            begin_trial(state);
        } else if (wants_trial_against_original(state)) {
            begin_trial(state);
        }
    }
}

/// Families whose original can only be judged from live calls wait for samples.
void Tuner::time_waiting_candidates(Lock& lock) {
    for (auto& [id, family] : families_) {
        if (family.decision == FamilyDecision::whet) continue;
        // By number: while a contest is held, others bring new sites of the family.
        for (size_t i = 0; i < family.sites.size() && may_contest(); ++i) {
            SiteState& state = sites_[family.sites[i]];
            if (state.pending && state.pending->against_original == 0 && !family.reverted &&
                state.pending->kind != forge::OfferKind::lent && state.site->op.threads <= 1 &&
                runtime_.options.force != "original" &&
                (state.site->original.load() || state.original.count() >= 4)) {
                time_against_original(state, lock);
            }
        }
        if (family.decision == FamilyDecision::open) decide_family(family, base::steady_ns());
    }
}

/// How the family's live calls compare with the original's from before it crossed; 0: not enough
/// samples yet.
double Tuner::live_ratio(const FamilyState& family, SiteState** heaviest) {
    double weights = 0, logs = 0, all = 0, most = 0;
    for (const uint32_t index : family.sites) {
        SiteState& state = sites_[index];
        if (!state.current) continue;
        const double weight =
            static_cast<double>(state.calls) * std::max(state.original.median_ns(), 1.0);
        all += weight;
        if (state.original.count() < kLeastLiveSamples || state.serving.count() < kLeastLiveSamples)
            continue;
        weights += weight;
        logs += weight *
                std::log(state.original.median_ns() / std::max(1.0, state.serving.median_ns()));
        if (weight <= most) continue;
        most = weight;
        *heaviest = &state;
    }
    return weights == 0 || weights < kEnoughCoverage * all ? 0 : std::exp(logs / weights);
}

void Tuner::watch_crossed(Lock& lock) {
    for (auto& [id, family] : families_) {
        const int64_t now = base::steady_ns();
        if (!may_contest()) return;
        if (family.decision != FamilyDecision::whet || family.reverted ||
            now < family.next_watch_ns || runtime_.options.force == "whet" ||
            runtime_.options.numerics == base::Numerics::invariant) {
            continue;
        }
        SiteState* heaviest = nullptr;
        const double ratio = live_ratio(family, &heaviest);
        if (ratio == 0 || ratio >= kRegret) continue;
        // The machine may have become slower since then: only a fresh paired timing tells.
        family.next_watch_ns = now + kWatchPauseNs;
        if (heaviest->site->original.load(std::memory_order_acquire)) {
            const Record& record = *heaviest->current;
            const auto times = contest(*heaviest, record, lock);
            if (!times || times->high >= 1 || heaviest->current != &record) continue;
        } else if (ratio > kRegretUnpaired) {
            continue;
        } else if (heaviest->site->op.threads > 1 && family.retrials < kMostRetrials) {
            ++family.retrials;
            try_again(family);
            continue;
        }
        cross_back(family, ratio);
    }
}

/// The original serves, and every plan of the family is tried beside it once more.
void Tuner::try_again(FamilyState& family) {
    family.decision = FamilyDecision::open;
    family.first_measured_ns = 0;
    for (const uint32_t index : family.sites) {
        SiteState& state = sites_[index];
        if (state.trial) end_trial(state, TrialVerdict::undecided);
        if (!state.current) continue;
        state.pending = Candidate{state.current, forge::OfferKind::tuned, 0, 0, 0};
        state.current = nullptr;
        state.site->record.store(nullptr, std::memory_order_release);
        begin_trial(state);
    }
}

/// After a warm start the original is never called: what the program would have had is timed in the
/// background, the site that costs most first, one in a round, once there are no new sites to
/// serve. A family whose heaviest site loses goes back to the original.
void Tuner::look_back(Lock& lock) {
    if (!may_contest() || base::steady_ns() < last_site_ns_ + kCalmNs || !offers_.empty() ||
        !wanted_packs_.empty())
        return;
    SiteState* heaviest = nullptr;
    double most = 0;
    bool first = true;  // of its family
    for (SiteState& state : sites_) {
        const double weight = static_cast<double>(state.calls) * state.serving.median_ns();
        if (!state.current || state.trial || weight <= most ||
            state.original.count() >= kFewSamples || state.background_original_ns > 0 ||
            state.looked_back || !state.site->original.load(std::memory_order_acquire))
            continue;
        most = weight;
        heaviest = &state;
    }
    if (heaviest == nullptr) return;
    FamilyState& family = family_of(*heaviest);
    for (const uint32_t index : family.sites)
        first = first && !(sites_[index].looked_back || sites_[index].background_original_ns > 0);
    heaviest->looked_back = true;
    const Record& record = *heaviest->current;
    const auto times = contest(*heaviest, record, lock);
    if (!times) return;
    heaviest->background_original_ns = times->original_ns;
    const bool forced = runtime_.options.force == "whet" ||
                        runtime_.options.numerics == base::Numerics::invariant;
    if (first && !forced && times->high < kRegret && heaviest->current == &record &&
        family.decision == FamilyDecision::whet)
        cross_back(family, times->ratio);
}

void Tuner::cross_back(FamilyState& family, double ratio) {
    family.reverted = true;
    family.decision = FamilyDecision::original;
    base::log_event(base::Level::info, "tuner", "family back to the original", {{"ratio", ratio}});
    for (const uint32_t index : family.sites) {
        SiteState& state = sites_[index];
        if (state.trial) end_trial(state, TrialVerdict::undecided);
        state.pending.reset();
        if (!state.current) continue;
        state.site->record.store(nullptr, std::memory_order_release);
        verdict(state, VerdictKind::original_kept, state.current->schedule, ratio);
        state.current = nullptr;
        state.reason = "slower than the original on live calls";
        ++rolled_back_;
    }
}

void Tuner::refuse(SiteState& state, const Record& record, VerdictKind kind,
                   const std::string& why) {
    FamilyState& family = family_of(state);
    if (!family.refused.insert(record.schedule).second) {
        if (state.current == &record)
            state.current = nullptr;  // taken out by a caller a second time
        return;
    }
    ++rolled_back_;
    if (kind == VerdictKind::wrong) ++refused_wrong_;
    base::log_event(
        base::Level::error, "tuner", "rolled back",
        {{"op", operation_text(state.site->op)}, {"schedule", record.schedule}, {"why", why}});
    for (const uint32_t index : family.sites) {
        SiteState& other = sites_[index];
        if (other.pending && other.pending->record->schedule == record.schedule) {
            if (other.trial) end_trial(other, TrialVerdict::undecided);
            other.pending.reset();
        }
        if (!other.current || other.current->schedule != record.schedule) continue;
        const Record* back = other.current->baseline;
        while (back && family.refused.count(back->schedule)) back = back->baseline;
        other.site->record.store(back, std::memory_order_release);
        other.current = back;
        other.serving.clear();
        other.reason = why;
    }
    verdict(state, kind, record.schedule, 0);
}

void Tuner::verdict(const SiteState& state, VerdictKind kind, const std::string& schedule,
                    double ratio) {
    send(forge::Message::verdict, forge::VerdictMessage{state.site->id, kind, schedule, ratio});
}

}  // namespace whet::runtime
