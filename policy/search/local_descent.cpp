// SPDX-License-Identifier: Apache-2.0
// Proposes points of one sketch: the analytical draft first, then neighbours of the best, now and
// then a far one.
#include "policy/search/local_descent.hpp"

#include <algorithm>

namespace whet::policy {
namespace {

constexpr int kReach[] = {-1, 1, -2, 2};  ///< choices a neighbour lies away, along one knob
constexpr double kRatioMemory = 0.8;      ///< of the running measured/estimated ratio

}  // namespace

uint64_t hash_of(const base::Point& point) noexcept {
    uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a, then a finaliser: points differ in few low bits
    for (const int16_t choice : point)
        hash = (hash ^ static_cast<uint16_t>(choice)) * 0x100000001b3u;
    hash ^= hash >> 29;
    hash *= 0xbf58476d1ce4e5b9u;
    return hash ^ (hash >> 32);
}

bool LocalDescent::seen(const base::Point& point) const { return seen_.contains(hash_of(point)); }
bool LocalDescent::see(const base::Point& point) {
    return seen_.emplace(hash_of(point), true).second;
}

void LocalDescent::add_draft(const base::Point& point) {
    drafts_.push_back({point, space_.estimate_ns(sketch_, point)});
}

void LocalDescent::expand(Timed& parent) const {
    parent.expanded = true;
    for (int knob = 0; knob < space_.knob_count(sketch_); ++knob) {
        for (const int delta : kReach) {
            base::Point point = parent.point;
            if (!space_.step(sketch_, point, {knob, delta}) || seen(point)) continue;
            const double estimate = space_.estimate_ns(sketch_, point);
            parent.neighbours.push_back({std::move(point), estimate});
        }
    }
}

bool LocalDescent::best_neighbour(Scored* best) {
    bool found = false;
    for (Timed& parent : timed_) {
        if (!parent.expanded) expand(parent);
        std::erase_if(parent.neighbours,
                      [&](const Scored& neighbour) { return seen(neighbour.point); });
        for (const Scored& neighbour : parent.neighbours) {
            const double score = neighbour.score * parent.ratio;
            if (found && score >= best->score) continue;
            *best = {neighbour.point, score};
            found = true;
        }
    }
    return found;
}

bool LocalDescent::walk(std::mt19937_64& random, base::Point* point) const {
    const int knobs = space_.knob_count(sketch_);
    if (knobs == 0) return false;
    for (int attempt = 0; attempt < kFarTries; ++attempt) {
        const size_t starts = timed_.size() + drafts_.size();
        if (starts == 0) return false;
        const size_t start = random() % starts;
        base::Point at =
            start < timed_.size() ? timed_[start].point : drafts_[start - timed_.size()].point;
        // Longer from try to try: a small neighbourhood may be used up.
        for (int step = 0; step < kFarSteps * (1 + attempt / 4); ++step) {
            const int knob = static_cast<int>(random() % static_cast<uint64_t>(knobs));
            space_.step(sketch_, at, {knob, random() % 2 == 0 ? 1 : -1});
        }
        if (seen(at)) continue;
        *point = std::move(at);
        return true;
    }
    return false;
}

bool LocalDescent::propose(std::mt19937_64& random, bool random_only, base::Point* point) {
    while (next_draft_ < drafts_.size() && seen(drafts_[next_draft_].point)) ++next_draft_;
    const bool far = random_only || (++proposals_ % kFarShare == 0 && has_best());
    if (far && walk(random, point)) return see(*point);

    Scored best;
    bool found = best_neighbour(&best);
    if (next_draft_ < drafts_.size()) {
        const Scored& draft = drafts_[next_draft_];
        if (!found || draft.score * ratio_ <= best.score) {
            best = draft;
            found = true;
        }
    }
    if (found)
        *point = std::move(best.point);
    else
        found = walk(random, point);
    if (!found) {
        exhausted_ = true;
        return false;
    }
    return see(*point);
}

void LocalDescent::report(const base::Point& point, double ns) {
    see(point);
    if (!(ns > 0)) return;
    const double estimate = space_.estimate_ns(sketch_, point);
    const double ratio = estimate > 0 ? ns / estimate : 1;
    ratio_ = timed_.empty() ? ratio : kRatioMemory * ratio_ + (1 - kRatioMemory) * ratio;
    std::erase_if(timed_, [&](const Timed& timed) { return timed.point == point; });
    Timed timed{point, ns, ratio, false, {}};
    const auto place = std::upper_bound(timed_.begin(), timed_.end(), timed,
                                        [](const Timed& a, const Timed& b) { return a.ns < b.ns; });
    timed_.insert(place, std::move(timed));
    if (timed_.size() > kParents) timed_.pop_back();
}

}  // namespace whet::policy
