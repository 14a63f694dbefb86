// SPDX-License-Identifier: Apache-2.0
// SW-UCB: an upper-confidence bandit that forgets what left its window.
#include "policy/bandit/sliding_window_ucb.hpp"

#include <algorithm>
#include <cmath>

namespace whet::policy {

int SlidingWindowUcb::choose(const std::vector<bool>& open,
                             const std::vector<double>& priors) const {
    double largest = 0;
    for (const Play& play : history_) largest = std::max(largest, play.reward);
    const double scale = largest > 0 ? 1 / largest : 0;
    const double log_t = std::log(static_cast<double>(std::max<size_t>(history_.size(), 2)));

    int best = -1, fresh = -1;
    double best_index = 0, fresh_prior = 0;
    for (size_t arm = 0; arm < plays_.size(); ++arm) {
        if (!open.empty() && (arm >= open.size() || !open[arm])) continue;
        if (plays_[arm] == 0) {
            const double prior = arm < priors.size() ? priors[arm] : 0;
            if (fresh < 0 || prior > fresh_prior) {
                fresh = static_cast<int>(arm);
                fresh_prior = prior;
            }
            continue;
        }
        const double n = static_cast<double>(plays_[arm]);
        const double index = sums_[arm] / n * scale + exploration_ * std::sqrt(log_t / n);
        if (best < 0 || index > best_index) {
            best = static_cast<int>(arm);
            best_index = index;
        }
    }
    return fresh >= 0 ? fresh : best;
}

void SlidingWindowUcb::update(int arm, double reward) {
    const auto at = static_cast<size_t>(arm);
    history_.push_back({arm, reward});
    ++plays_[at];
    sums_[at] += reward;
    if (history_.size() <= window_) return;
    const Play old = history_.front();
    history_.pop_front();
    const auto old_at = static_cast<size_t>(old.arm);
    --plays_[old_at];
    sums_[old_at] = plays_[old_at] == 0 ? 0 : sums_[old_at] - old.reward;
}

}  // namespace whet::policy
