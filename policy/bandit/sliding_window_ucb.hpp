// SPDX-License-Identifier: Apache-2.0
// SW-UCB: an upper-confidence bandit that forgets what left its window.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

namespace whet::policy {

/// Garivier and Moulines, "On upper-confidence bound policies for switching bandit problems" (ALT
/// 2011), section 3: plays argmax_i  X_t(tau, i) + c sqrt(log(min(t, tau)) / N_t(tau, i)), both
/// taken over the last tau plays. Rewards are scaled by the largest one in the window, so that c
/// keeps its meaning whatever their unit.
class SlidingWindowUcb {
public:
    static constexpr size_t kWindow = 256;        ///< tau, plays; HARL (ICPP 2022)
    static constexpr double kExploration = 0.25;  ///< c; HARL (ICPP 2022)

    explicit SlidingWindowUcb(size_t window = kWindow, double exploration = kExploration)
        : window_(window), exploration_(exploration) {}

    /// Arms are numbered from 0; new ones may come at any time.
    void resize(size_t arms) {
        if (arms > plays_.size()) {
            plays_.resize(arms);
            sums_.resize(arms);
        }
    }
    size_t arms() const { return plays_.size(); }

    /// The arm to play among those with open[arm] (all when empty); -1 when none. An arm without
    /// plays in the window goes first, the one with the largest prior (the lowest number when there
    /// are no priors).
    int choose(const std::vector<bool>& open, const std::vector<double>& priors) const;
    /// Records a play's reward, not negative.
    void update(int arm, double reward);
    size_t plays_in_window(int arm) const { return plays_[static_cast<size_t>(arm)]; }

private:
    struct Play {
        int arm;
        double reward;
    };
    size_t window_;
    double exploration_;
    std::deque<Play> history_;
    std::vector<size_t> plays_;
    std::vector<double> sums_;
};

}  // namespace whet::policy
