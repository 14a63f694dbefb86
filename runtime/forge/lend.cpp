// SPDX-License-Identifier: Apache-2.0
// The forge's lending: one search serves the row counts around it.
//
// A program brings a hundred row counts of one weight matrix; each has its own site, and a first
// plan with its guarded runs costs tens of milliseconds. Within half an octave of rows the best
// schedules differ little, so one site of each neighbourhood is searched (the leader) and the
// others have its schedule, lowered for their own rows. What such a plan is made of is verified: the
// nest in closed form by the program (prove_addresses), each microkernel alone against its
// definition here; docs/proof.md says why that is enough.
#include <algorithm>
#include <cmath>

#include "runtime/dispatch/operation.hpp"
#include "runtime/forge/workshop.hpp"

namespace whet::runtime::forge {
namespace {

constexpr double kNearOctaves = 0.5;     // of the row count: how far a schedule is lent
constexpr double kOutgrownShare = 0.03;  // of the program's time in sites: worth a search of its own
constexpr size_t kKernelsAtOnce = 8;     // in one request to the worker: its frames are bounded

double rows_log2(const Site& site) {
    return std::log2(static_cast<double>(std::max<int64_t>(symbolic_extent(site.op), 1)));
}

}  // namespace

Site* Workshop::leader_of(const Site& site) const {
    const auto family = families_.find(site.family);
    if (family == families_.end()) return nullptr;
    const double rows = rows_log2(site);
    Site* nearest = nullptr;
    double least = kNearOctaves;
    for (Site* other : family->second.sites) {
        if (other == &site || other->lendable.empty()) continue;
        const double distance = std::fabs(rows_log2(*other) - rows);
        if (distance > least || (nearest != nullptr && distance == least)) continue;
        least = distance;
        nearest = other;
    }
    return nearest;
}

bool Workshop::check_alone(Site& site, const Candidate& candidate) {
    std::vector<KernelRef> unchecked;
    for (const KernelRef& kernel : candidate.kernels) {
        if (!checked_alone_.contains(kernel->id)) unchecked.push_back(kernel);
    }
    for (size_t first = 0; first < unchecked.size(); first += kKernelsAtOnce) {
        const size_t last = std::min(first + kKernelsAtOnce, unchecked.size());
        const std::vector<KernelRef> part(unchecked.begin() + static_cast<std::ptrdiff_t>(first),
                                          unchecked.begin() + static_cast<std::ptrdiff_t>(last));
        const TrialResult result = executor_->check_kernels(part);
        if (result.verdict != Verdict::right) {
            count_refusal(site, result, candidate.schedule.print());
            return false;
        }
        for (const KernelRef& kernel : part) checked_alone_.insert(kernel->id);
    }
    return true;
}

bool Workshop::lend(Site& site, const Site& leader) {
    auto schedule = jit::Schedule::parse(leader.lendable);
    if (!schedule || site.refused.contains(jit::hash_of(*schedule))) return false;
    auto prepared = prepare(site, *schedule, true);
    if (!prepared || !layout_fits(site, prepared->plan)) return false;
    working_on_ = site.id;
    doing_ = "lend a plan";
    if (!check_alone(site, prepared->candidate)) {
        site.refused.insert(jit::hash_of(*schedule));
        return false;
    }
    site.best = std::move(prepared->candidate);
    site.has_best = true;
    site.timed = false;
    site.best_ns = 0;
    site.ratio = leader.ratio;
    site.low = leader.low;
    site.high = leader.high;
    site.stage = Site::Stage::lent;
    send_offer(site, OfferKind::lent);
    return true;
}

bool Workshop::lend_fresh() {
    if (!settings_.options.force.empty()) return false;
    for (auto at = fresh_.begin(); at != fresh_.end(); ++at) {
        Site& site = *sites_.at(*at);
        const bool idle = site.stage == Site::Stage::fresh || site.stage == Site::Stage::lent;
        const Site* const leader = idle ? leader_of(site) : nullptr;
        if (leader == nullptr) continue;
        // What cannot be lent waits for a first plan of its own, or keeps what was lent before.
        if (!lend(site, *leader) && site.stage != Site::Stage::lent) continue;
        fresh_.erase(at);
        return true;
    }
    return false;
}

void Workshop::lend_again(const Site& leader) {
    for (Site* site : families_[leader.family].sites) {
        if (site->stage != Site::Stage::lent || leader_of(*site) != &leader) continue;
        if (site->has_best && site->best.schedule.print() == leader.lendable) continue;
        if (std::find(fresh_.begin(), fresh_.end(), site->id) == fresh_.end())
            fresh_.push_back(site->id);
    }
}

bool Workshop::outgrown(const Site& site) const {
    return site.stage == Site::Stage::lent && site.total_ns > kOutgrownShare * total_ns_;
}

}  // namespace whet::runtime::forge
