// SPDX-License-Identifier: Apache-2.0
// The background thread of a program: profiles, talks to the forge, tries, publishes, watches,
// rolls back.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <whet/whet.h>

#include "base/cgroup.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/status.hpp"
#include "base/threads.hpp"
#include "runtime/budget/budget.hpp"
#include "runtime/forge/client.hpp"
#include "runtime/profile/thread_block.hpp"
#include "runtime/report/control_page.hpp"
#include "runtime/report/report.hpp"
#include "runtime/trial/background_timing.hpp"
#include "runtime/tuner/state.hpp"

namespace whet::runtime {

struct Runtime;

/// One per process. Public functions are thread-safe; the thread starts at the first sampled call,
/// never before. The mutex is never held while something is timed or packed.
class Tuner {
public:
    /// `forked`: in the child of a fork, where the parent has said already what there is to say.
    explicit Tuner(Runtime& runtime, bool forked = false) : runtime_(runtime), forked_(forked) {}

    /// From a sampled call. One relaxed load when the thread runs already.
    void wake_at_first_call() noexcept {
        if (!started_.load(std::memory_order_relaxed)) start();
    }
    /// Starts the thread if this process may tune or is watched.
    void start() noexcept;

    /// Waits until nothing is left to do for the known sites. out_of_budget: time is over.
    base::Result<void> drain(double seconds);
    /// Asks the forge; hands its answer to `write` as it comes. Blocks; unsupported when there is
    /// no forge.
    base::Result<void> text_call(const std::string& request, whet_write write, void* user);
    base::Result<void> plant(whet_site* site, const void* content, size_t bytes, bool skip_static);
    Report report();

    /// Publishes the last report to a watching parent. From exit handlers: waits a moment for
    /// the mutex, then leaves the report of the last quarter second.
    void at_exit() noexcept;
    /// Child of a fork: closes the parent's socket to its forge. The object is used no more.
    void close_in_child() noexcept;

private:
    using Lock = std::unique_lock<std::mutex>;

    // tuner.cpp: the thread and its loop
    void run();
    void run_once(Lock& lock);
    void connect(int64_t now);
    void handle_frames(Lock& lock);
    void handle(forge::Message type, const std::vector<uint8_t>& payload);
    void lose_forge(const base::Error& error, int64_t now);
    void give_up(const std::string& line);
    bool was_refused();
    void obey_control_page();
    void every_quarter_second(int64_t now);
    void read_limits(int64_t now);
    void send_profile();
    void answer_watchers(int64_t now);
    template <typename T>
    void send(forge::Message type, const T& message) {
        if (!forge_) return;
        if (auto sent = forge_->send(type, message); !sent)
            lose_forge(sent.error(), base::steady_ns());
    }
    void say(const std::string& line, const char* topic = "tuner",
             base::Level level = base::Level::warning);
    Report make_report();
    double bound_ns_of(const SiteState& state) const;

    // profile.cpp: from the threads' counters and samples to the sites' states
    void adopt_new_sites();
    void drain_samples(Lock& lock);
    void take_sample(const Sample& sample);
    void sum_counters(int64_t now);
    void set_sample_period(SiteState& state);
    void watch_latency(double now_seconds);
    void evict_cold_sites();

    // install.cpp: from offers to published records
    void handle_offers(Lock& lock);
    void make_site_ahead(const forge::OfferMessage& offer);
    void consider(SiteState& state, const forge::OfferMessage& offer, Lock& lock);
    base::Result<Record*> make_record(const whet_op& op, const std::string& schedule,
                                      const std::vector<jit::Blob>& blobs);
    bool pack_seen_operands(SiteState& state, const Record& record, Lock& lock);
    void keep_to_share(int64_t cpu_ns);
    bool may_contest() const;
    /// Times `record` against the site's original, without the lock meanwhile, and keeps to the
    /// share: no other contest begins before offers_not_before_ns_.
    base::Result<BackgroundTimes> contest(const SiteState& state, const Record& record, Lock& lock);
    void time_against_original(SiteState& state, Lock& lock);
    void try_again(FamilyState& family);
    bool wants_trial_against_original(const SiteState& state) const;
    void decide_family(FamilyState& family, int64_t now);
    void cross(FamilyState& family);
    void publish(SiteState& state, const Record* record, const std::string& why);
    void begin_trial(SiteState& state);
    void end_trial(SiteState& state, TrialVerdict verdict);
    void check_trials(int64_t now);
    void time_waiting_candidates(Lock& lock);
    double live_ratio(const FamilyState& family, SiteState** heaviest);
    void watch_crossed(Lock& lock);
    void look_back(Lock& lock);
    void cross_back(FamilyState& family, double ratio);
    void refuse(SiteState& state, const Record& record, forge::VerdictKind kind,
                const std::string& why);
    void verdict(const SiteState& state, forge::VerdictKind kind, const std::string& schedule,
                 double ratio);
    void pack_wanted(Lock& lock);
    FamilyState& family_of(const SiteState& state) { return families_[state.site->family]; }
    bool settled() const;
    /// CPU seconds that tuning has cost so far, forge and this thread.
    double spent_seconds() const {
        return status_before_restarts_.cpu_seconds + status_.cpu_seconds + background_cpu_seconds_;
    }
    bool may_work(int64_t now) const;

    Runtime& runtime_;
    const bool forked_;
    std::atomic<bool> started_{false};
    std::atomic<int> socket_{-1};  ///< of the forge, for close_in_child
    std::mutex mutex_;
    std::condition_variable changed_;  ///< signalled after every round

    std::deque<SiteState> sites_;  ///< by site index
    std::map<uint64_t, FamilyState> families_;
    std::deque<forge::OfferMessage> offers_;
    struct WantedPack {
        uint32_t site;
        uint32_t operand;
        const void* pointer;
    };
    std::deque<WantedPack> wanted_packs_;

    std::optional<forge::Client> forge_;
    forge::StatusMessage status_;
    bool status_is_fresh_ = false;  ///< a status arrived after the last site was announced
    forge::StatusMessage status_before_restarts_;
    int restarts_ = 0;
    int64_t connect_at_ns_ = 0;
    bool gave_up_ = false;
    uint32_t mxcsr_ = 0x1f80;
    std::map<uint64_t, std::string> answers_;
    std::map<uint64_t, bool> answered_;
    uint64_t next_text_id_ = 1;
    base::Cgroup cgroup_;
    std::optional<Budget> budget_;
    int64_t next_limits_ns_ = 0;
    BackgroundTimer timer_;
    size_t most_trial_bytes_ = 0;  ///< operands of one background timing
    std::unique_ptr<ControlPage> page_;
    std::vector<std::string> said_;
    int64_t next_quarter_ns_ = 0;
    int64_t last_rate_ns_ = 0;
    int64_t last_site_ns_ = 0;  ///< when the last new site was seen
    uint64_t published_ = 0, rolled_back_ = 0, declined_ = 0, refused_wrong_ = 0;
    double background_cpu_seconds_ = 0;
    double share_ = 1;                  ///< of one core, as the budget allows now
    int64_t offers_not_before_ns_ = 0;  ///< this thread's own part of keeping to the share
};

}  // namespace whet::runtime
