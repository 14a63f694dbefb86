// SPDX-License-Identifier: Apache-2.0
// Proposes points of one sketch: the analytical draft first, then neighbours of the best, now and
// then a far one.
#pragma once

#include <cstdint>
#include <random>
#include <unordered_map>
#include <vector>

#include "base/search_space.hpp"

namespace whet::policy {

/// Local descent on one sketch of a space (after Droplet search and the local descent of ICS'24:
/// most of what a long search finds lies one or two moves from a good start). Unseen neighbours of
/// the best measured points are ordered by their closed-form estimate times the measured/estimated
/// ratio of the point they came from, so a model that is wrong by a factor in a region is corrected
/// there. Not thread-safe.
class LocalDescent {
public:
    static constexpr int kParents = 4;    ///< best points whose neighbours are looked at
    static constexpr int kFarShare = 10;  ///< one proposal in so many is a random walk
    static constexpr int kFarSteps = 6;   ///< moves of a random walk
    static constexpr int kFarTries = 32;  ///< walks before the neighbourhood counts as used up

    LocalDescent(const base::SearchSpace& space, int sketch) : space_(space), sketch_(sketch) {}

    /// Adds a draft point; drafts come best first.
    void add_draft(const base::Point& point);
    /// One unseen point, now counted as seen; false when nothing is left in reach. `random_only`:
    /// walks only.
    bool propose(std::mt19937_64& random, bool random_only, base::Point* point);
    /// Tells the time of a point (ns > 0) or that it was refused (ns = 0).
    void report(const base::Point& point, double ns);

    bool exhausted() const { return exhausted_; }
    bool has_best() const { return !timed_.empty(); }
    double best_ns() const { return timed_.front().ns; }
    const base::Point& best_point() const { return timed_.front().point; }
    /// Estimate of the best draft, ns; 0 without drafts.
    double draft_ns() const { return drafts_.empty() ? 0 : drafts_.front().score; }

private:
    struct Scored {
        base::Point point;
        double score = 0;
    };
    struct Timed {
        base::Point point;
        double ns = 0, ratio = 1;
        bool expanded =
            false;  ///< neighbours are known: legality and estimates cost, so they are kept
        std::vector<Scored> neighbours;  ///< unseen when they were found; score: the plain estimate
    };

    bool see(const base::Point& point);
    bool seen(const base::Point& point) const;
    void expand(Timed& parent) const;
    bool best_neighbour(Scored* best);
    bool walk(std::mt19937_64& random, base::Point* point) const;

    const base::SearchSpace& space_;
    int sketch_;
    std::vector<Scored> drafts_;
    size_t next_draft_ = 0;
    std::vector<Timed> timed_;  ///< best first, kParents at most
    double ratio_ = 1;          ///< running measured/estimated of the sketch
    uint64_t proposals_ = 0;
    bool exhausted_ = false;
    std::unordered_map<uint64_t, bool> seen_;
};

/// Hash of a point, for sets of seen points.
uint64_t hash_of(const base::Point& point) noexcept;

}  // namespace whet::policy
