// SPDX-License-Identifier: Apache-2.0
// What the tuner knows of sites and families. Owned by the tuner, guarded by its mutex.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/dispatch/record.hpp"
#include "runtime/dispatch/site.hpp"
#include "runtime/forge/protocol.hpp"
#include "runtime/trial/live_trial.hpp"

namespace whet::runtime {

/// Sampled times of one implementation at one site: the last 31, whose median resists interrupts.
class Times {
public:
    void add(double ns) {
        recent_[count_ % kKept] = static_cast<float>(ns);
        ++count_;
    }
    void clear() { count_ = 0; }
    uint64_t count() const { return count_; }
    double median_ns() const;
    /// Of the logarithms; of nothing: zeros.
    Centre log_centre() const;

private:
    static constexpr uint64_t kKept = 31;
    std::array<float, kKept> recent_{};
    uint64_t count_ = 0;
};

/// A verified plan that waits: for its family's decision, or for the end of its live trial.
struct Candidate {
    const Record* record = nullptr;
    forge::OfferKind kind = forge::OfferKind::zero_trial;
    double low = 0;  ///< of the forge's interval of incumbent / this; 0: none
    /// original / plan, timed in the background; 0: not timed.
    double against_original = 0, against_original_low = 0;
};

struct SiteState {
    whet_site* site = nullptr;
    bool announced = false;  ///< the forge knows it
    bool ahead = false;      ///< made for a stored plan; the program may never call it
    bool looked_back = false;  ///< its original was timed after the store's plan served
    uint64_t calls = 0, calls_at_publish = 0, calls_at_rate = 0;
    double calls_per_s = 0;   ///< of the last quarters of a second
    Times original, serving;  ///< live
    double background_original_ns = 0, background_plan_ns = 0, bound_ns = 0;
    const Record* current = nullptr;  ///< what we published last and have not taken back
    std::optional<Candidate> pending;
    std::unique_ptr<LiveTrial> trial;
    int64_t trial_began_ns = 0;
    /// Frozen operands seen in calls: operand index and address.
    std::set<std::pair<uint32_t, const void*>> frozen_seen;
    const Record* parked = nullptr;  ///< of an evicted site
    double usual_ns = 0;             ///< slow average of what serves, to notice that all got slower
    std::string reason;                  ///< why it is served as it is
};

enum class FamilyDecision { open, whet, original };

struct FamilyState {
    FamilyDecision decision = FamilyDecision::open;
    std::vector<uint32_t> sites;
    /// Schedules that were wrong, or were regretted: never again in this process.
    std::set<std::string> refused;
    int64_t first_measured_ns = 0;
    int retrials = 0;       ///< of what it crossed to, on live calls
    bool reverted = false;  ///< crossed back once: final
    int64_t next_watch_ns = 0;
};

}  // namespace whet::runtime
