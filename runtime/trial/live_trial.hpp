// SPDX-License-Identifier: Apache-2.0
// Deciding between two records of one site from timings of live calls, by a sequential rule on
// paired log-ratios.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace whet::runtime {

enum class TrialVerdict { undecided, adopt, decline };

/// Median and a robust 95 % interval (by the median absolute deviation) of a sample.
struct Centre {
    double median = 0, low = 0, high = 0;
};

/// Live timings of incumbent and challenger. Pairs are formed in order of arrival, so that slow
/// changes of the machine fall on both. Not thread-safe.
class LiveTrial {
public:
    void add(bool challenger, double ns);
    /// Decides once the interval of the median log-ratio leaves 0, or at the latest after
    /// kMostPairs.
    TrialVerdict verdict() const;
    /// What to do when there will be no more samples. evidence_low: lower end of the forge's own
    /// interval.
    TrialVerdict verdict_at_end(double evidence_low) const;
    /// Of the log-ratios incumbent / challenger.
    Centre centre() const;
    /// incumbent time / challenger time; 1 without samples.
    double ratio() const;
    size_t pairs() const { return log_ratios_.size(); }

    static constexpr size_t kLeastPairs = 16;  ///< before anything is decided
    static constexpr size_t kMostPairs = 160;  ///< then the median decides

private:
    std::vector<double> waiting_[2];
    std::vector<double> log_ratios_;
};

Centre centre_of(std::vector<double> values);

}  // namespace whet::runtime
