// SPDX-License-Identifier: Apache-2.0
// From the threads' counters and samples to what the tuner knows of each site.
#include <algorithm>
#include <cmath>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "runtime/dispatch/operation.hpp"
#include "runtime/runtime.hpp"
#include "runtime/tuner/tuner.hpp"

namespace whet::runtime {
namespace {

constexpr double kSampleCostNs = 60;     // two reads of the counter and a push
constexpr double kMostOverhead = 0.005;  // of a site's time
constexpr uint32_t kLeastPeriod = 4, kMostPeriod = 4096;
constexpr double kTooShortNs = 2000;   // below it sampling is rare: it would be felt
constexpr uint64_t kFirstSamples = 8;  // every call of a new site, until so many are known
constexpr uint32_t kTrialPeriod = 2, kBesideOriginalPeriod = 12;
constexpr size_t kMostFrozenSeen = 4096;  // weights of one site
constexpr double kUsualWeight = 0.02;     // of a new median in the usual time

}  // namespace

void Tuner::adopt_new_sites() {
    const uint32_t known = runtime_.sites.size();
    while (sites_.size() < known) {
        const auto index = static_cast<uint32_t>(sites_.size());
        SiteState& state = sites_.emplace_back();
        last_site_ns_ = base::steady_ns();
        state.site = runtime_.sites.site(index);
        if (state.site->degenerate) {
            state.reason = "nothing to compute";
            continue;
        }
        state.reason = "no plan yet";
        FamilyState& family = families_[state.site->family];
        family.sites.push_back(index);
        // In the child of a fork the table is older than its tuner.
        state.site->challenger.store(nullptr, std::memory_order_release);
        state.current = state.site->record.load(std::memory_order_acquire);
        if (!state.current) continue;
        family.decision = FamilyDecision::whet;
        state.reason = "published before the fork";
    }
    if (!forge_) return;
    for (auto& state : sites_) {
        if (state.announced || state.site->degenerate || state.site->evicted) continue;
        state.announced = true;
        status_is_fresh_ = false;
        send(forge::Message::site,
             forge::SiteMessage{state.site->id, state.site->family, state.site->op});
        if (!forge_) return;
    }
}

void Tuner::drain_samples(Lock&) {
    Sample sample;
    for (ThreadBlock* block = first_block(); block; block = block->next) {
        for (uint32_t i = 0; i < ThreadBlock::kRing && block->pop(sample); ++i) take_sample(sample);
    }
}

void Tuner::take_sample(const Sample& sample) {
    if (sample.site->index >= sites_.size()) adopt_new_sites();
    if (sample.site->index >= sites_.size()) return;
    SiteState& state = sites_[sample.site->index];
    switch (sample.kind) {
        case SampleKind::wrong: {
            refuse(state, *sample.record, forge::VerdictKind::wrong,
                   "a live check found a wrong answer");
            return;
        }
        case SampleKind::wants_pack: {
            const auto operand = static_cast<uint32_t>(sample.ns);
            if (state.frozen_seen.size() < kMostFrozenSeen)
                state.frozen_seen.emplace(operand, sample.pointer);
            if (sample.record && wanted_packs_.size() < kMostFrozenSeen) {
                wanted_packs_.push_back({sample.site->index, operand, sample.pointer});
            }
            return;
        }
        case SampleKind::timed: break;
    }
    const double ns = static_cast<double>(sample.ns) / base::cycles_per_ns();
    if (!sample.record) {
        state.original.add(ns);
        if (state.original.count() % 16 == kFirstSamples) set_sample_period(state);
    } else if (sample.record == state.current) {
        state.serving.add(ns);
        if (state.serving.count() % 16 == kFirstSamples) set_sample_period(state);
    }
    if (!state.trial || !state.pending) return;
    if (sample.record == state.pending->record) state.trial->add(true, ns);
    if (sample.record == state.current) state.trial->add(false, ns);  // without one, the original
}

void Tuner::set_sample_period(SiteState& state) {
    const double ns = state.current ? state.serving.median_ns() : state.original.median_ns();
    uint32_t period = kMostPeriod;
    if (ns <= 0) {
        period = kTrialPeriod;  // nothing known of what serves now
    } else if (ns >= kTooShortNs) {
        period = std::clamp(static_cast<uint32_t>(kSampleCostNs / (kMostOverhead * ns)),
                            kLeastPeriod, kMostPeriod);
    }
    // Beside the original a candidate's time comes on top of the program's.
    if (state.trial)
        period = std::min(period, state.current ? kTrialPeriod : kBesideOriginalPeriod);
    state.site->sample_period.store(period, std::memory_order_relaxed);
}

void Tuner::sum_counters(int64_t now) {
    for (auto& state : sites_) {
        uint64_t calls = 0;
        for (ThreadBlock* block = first_block(); block; block = block->next) {
            calls += block->counters[state.site->index].calls.load(std::memory_order_relaxed);
        }
        state.calls = calls;
    }
    if (now == 0) return;
    const double elapsed = static_cast<double>(now - last_rate_ns_) * 1e-9;
    for (auto& state : sites_) {
        if (last_rate_ns_ > 0 && elapsed > 0) {
            const double rate = static_cast<double>(state.calls - state.calls_at_rate) / elapsed;
            state.calls_per_s = 0.7 * state.calls_per_s + 0.3 * rate;
        }
        state.calls_at_rate = state.calls;
    }
    last_rate_ns_ = now;
}

void Tuner::watch_latency(double now_seconds) {
    double weights = 0, slower = 0;
    for (auto& state : sites_) {
        const Times& times = state.current ? state.serving : state.original;
        if (state.trial || times.count() < 31) continue;
        const double median = times.median_ns();
        if (state.usual_ns <= 0) state.usual_ns = median;
        const double weight = state.calls_per_s * state.usual_ns;
        weights += weight;
        slower += weight * median / state.usual_ns;
        state.usual_ns += kUsualWeight * (median - state.usual_ns);
    }
    if (weights > 0 && budget_) budget_->observe_latency(slower / weights, now_seconds);
}

void Tuner::evict_cold_sites() {
    const uint32_t budget = runtime_.sites.budget();
    std::vector<uint32_t> live;
    for (uint32_t i = 0; i < sites_.size(); ++i) {
        SiteState& state = sites_[i];
        if (state.site->degenerate) continue;
        if (!state.site->evicted) {
            live.push_back(i);
        } else if (state.calls_per_s > 1 && live.size() < budget) {
            state.site->evicted = false;  // hot again
            if (state.parked) publish(state, std::exchange(state.parked, nullptr), "hot again");
            live.push_back(i);
        }
    }
    if (live.size() <= budget) return;
    const auto colder = [&](uint32_t a, uint32_t b) {
        return sites_[a].calls_per_s < sites_[b].calls_per_s;
    };
    const auto cut = live.begin() + static_cast<std::ptrdiff_t>(live.size() - budget);
    std::nth_element(live.begin(), cut, live.end(), colder);
    for (auto it = live.begin(); it != cut; ++it) {
        SiteState& state = sites_[*it];
        if (state.trial) end_trial(state, TrialVerdict::undecided);
        state.pending.reset();
        state.site->evicted = true;
        state.parked = std::exchange(state.current, nullptr);
        state.site->record.store(nullptr, std::memory_order_release);
        state.reason = "evicted: among the coldest (WHET_BUDGET_SITES)";
    }
}

}  // namespace whet::runtime
