// SPDX-License-Identifier: Apache-2.0
// The sequential rule of live trials.
#include "runtime/trial/live_trial.hpp"

#include <algorithm>
#include <cmath>

namespace whet::runtime {
namespace {

constexpr double kMargin =
    0.005;  // log-ratio: a challenger must win by half a percent, so that ties change nothing

double median_of(std::vector<double>& values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

}  // namespace

Centre centre_of(std::vector<double> values) {
    if (values.empty()) return {};
    Centre centre;
    centre.median = median_of(values);
    for (double& value : values) value = std::fabs(value - centre.median);
    // 1.4826 makes the deviation that of a normal law, 1.2533 is the median's loss against the mean
    // there.
    const double error =
        1.4826 * 1.2533 * median_of(values) / std::sqrt(static_cast<double>(values.size()));
    centre.low = centre.median - 1.96 * error;
    centre.high = centre.median + 1.96 * error;
    return centre;
}

void LiveTrial::add(bool challenger, double ns) {
    if (!(ns > 0)) return;
    auto& mine = waiting_[challenger];
    auto& other = waiting_[!challenger];
    if (other.empty()) {
        if (mine.size() < 4)
            mine.push_back(ns);  // a longer queue would pair calls that lie far apart
        return;
    }
    const double partner = other.front();
    other.erase(other.begin());
    log_ratios_.push_back(challenger ? std::log(partner / ns) : std::log(ns / partner));
}

TrialVerdict LiveTrial::verdict() const {
    if (log_ratios_.size() < kLeastPairs) return TrialVerdict::undecided;
    const Centre centre = centre_of(log_ratios_);
    if (centre.low > kMargin) return TrialVerdict::adopt;
    if (centre.high < kMargin) return TrialVerdict::decline;
    if (log_ratios_.size() < kMostPairs) return TrialVerdict::undecided;
    return centre.median > kMargin ? TrialVerdict::adopt : TrialVerdict::decline;
}

TrialVerdict LiveTrial::verdict_at_end(double evidence_low) const {
    if (log_ratios_.size() >= kLeastPairs) {
        return centre_of(log_ratios_).median > kMargin ? TrialVerdict::adopt
                                                       : TrialVerdict::decline;
    }
    return evidence_low > 1 ? TrialVerdict::adopt : TrialVerdict::decline;
}

Centre LiveTrial::centre() const { return centre_of(log_ratios_); }

double LiveTrial::ratio() const {
    return log_ratios_.empty() ? 1 : std::exp(centre_of(log_ratios_).median);
}

}  // namespace whet::runtime
