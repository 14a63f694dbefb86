// SPDX-License-Identifier: Apache-2.0
// The forge's work, without its socket: sites, zero-trial plans, the search, planted candidates,
// verdicts, the store.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/env.hpp"
#include "base/log.hpp"
#include "base/status.hpp"
#include "base/threads.hpp"
#include "jit/plan/plan.hpp"
#include "jit/sketch/space.hpp"
#include "policy/policy.hpp"
#include "runtime/forge/executor.hpp"
#include "runtime/forge/kernel_source.hpp"
#include "runtime/forge/protocol.hpp"
#include "runtime/store/store.hpp"

namespace whet::runtime::forge {

/// Receives what the workshop has to tell.
class Outbox {
public:
    virtual ~Outbox() = default;
    virtual void offer(const OfferMessage& offer) = 0;
    virtual void log(base::Level level, const std::string& text) = 0;
};

struct WorkshopSettings {
    base::Options options;
    jit::Isa isa = jit::Isa::portable;
    std::string directory;  ///< of microkernels.bin and libwhet_llvm.so
    bool own_process = false;
};

/// One operation of the program.
struct Site {
    enum class Stage : uint8_t {
        fresh,   ///< nothing was tried
        lent,    ///< has the schedule of its family's nearest searched row count
        served,  ///< a plan was offered (or none can be)
        rested,  ///< served from the store, with a long search behind it: left alone until the
                 ///< program's load grows
        open,    ///< the search knows it
        closed,  ///< nothing more is done: unsupported, kept by the original, forced
    };
    SiteId id = 0;
    SiteId family = 0;
    whet_op op{};
    Stage stage = Stage::fresh;
    bool ahead = false;  ///< only the store knows it: the program has not called it yet
    std::string note;  ///< why nothing is done, or what was refused last
    std::unique_ptr<jit::ScheduleSpace> space;
    int task = -1;  ///< of the policy
    Candidate best;
    bool has_best = false;
    bool served = false;  ///< a plan of this site beat the original in a program, here or before
    bool timed = false;   ///< best_ns was measured in this process
    double best_ns = 0, bound_ns = 0;
    double offered_ns = 0;                ///< best_ns when the last offer was made
    double ratio = 0, low = 0, high = 0;  ///< of the last win
    double calls_per_s = 0, total_ns = 0;
    double settled_total_ns = 0;  ///< total_ns when it was settled
    int64_t trials = 0, stored_trials = 0;
    uint64_t rejected = 0;
    std::unordered_set<uint64_t> refused;      ///< schedule hashes that must not be offered (again)
    std::deque<policy::Proposal> deferred;     ///< proposals that wait for a compile
    std::deque<policy::Proposal> again;        ///< promising ones that a noisy moment left open
    std::unordered_set<uint64_t> tried_again;  ///< schedule hashes: once each
    std::string planted;                       ///< schedule of a planted candidate that was offered
    std::string lendable;  ///< a schedule of its own that the program has or may have
};

/// Sites that differ only in symbolic extents share the packed layout of a frozen operand.
struct Family {
    uint64_t layout = 0;  ///< PackLayout.id of the frozen B; 0: not chosen, or nothing is frozen
    bool planned = false;  ///< a member has a plan; the others borrow it, or find one of its layout
    std::vector<Site*> sites;
};

/// Does the work step by step on the calling thread; not thread-safe.
class Workshop {
public:
    Workshop(const WorkshopSettings& settings, std::unique_ptr<Executor> executor,
             std::unique_ptr<Store> store, Outbox& outbox);
    ~Workshop();

    /// A site became known. Offers its stored plan at once, when there is one.
    void add_site(const SiteMessage& message);
    void set_profile(const ProfileMessage& message);
    void take_verdict(const VerdictMessage& message);
    void plant(const PlantMessage& message);

    /// Does one unit of work, at most a few trials: first zero-trial plans, then the search. False:
    /// nothing to do.
    bool step();
    /// A step of the search on one site; false when it is settled or closed.
    bool step_site(Site& site);
    /// Sites whose search is settled are searched on, each with twice its patience. Returns how many
    /// sites are searched then.
    int search_on();
    /// Writes a site's best plan to the store, when there is one.
    void save(const Site& site);
    Site* find_site(SiteId id);
    const std::map<SiteId, std::unique_ptr<Site>>& sites() const { return sites_; }

    /// Trials that may still be spent; negative: unlimited.
    void set_trials_left(int64_t trials) { trials_left_ = trials; }
    bool may_try() const { return trials_left_ != 0 && !held_; }
    /// Held, no trial is made; new sites still borrow plans or get a first one.
    void hold(bool held) { held_ = held; }

    StatusMessage status() const;
    double outside_cpu_seconds() const { return executor_->outside_cpu_seconds(); }
    /// Nothing can be tried any more.
    bool lost() const { return executor_->lost(); }
    KernelSource& kernels() { return kernels_; }
    Store* store() { return store_.get(); }
    const StoreContents& stored() const { return stored_; }
    const WorkshopSettings& settings() const { return settings_; }
    const MachineRecord& machine();

private:
    struct PreparedPlan {
        jit::Plan plan;
        Candidate candidate;
        int compiled = 0;
    };
    bool zero_trial(Site& site);
    void make_space(Site& site);

    // lend.cpp: one search serves the row counts around it
    /// The searched site of the family that is nearest in rows, within kNearOctaves; or null.
    Site* leader_of(const Site& site) const;
    /// Offers the leader's schedule, its microkernels verified alone. False: it does not fit.
    bool lend(Site& site, const Site& leader);
    /// Lends to one of the fresh sites that have a leader near; false when there is none.
    bool lend_fresh();
    /// After a leader's plan was adopted: its followers are due for it.
    void lend_again(const Site& leader);
    bool check_alone(Site& site, const Candidate& candidate);
    /// A lent site that costs so much that it deserves a search of its own.
    bool outgrown(const Site& site) const;
    Site& make_site(const SiteMessage& message);
    bool offer_stored(Site& site);
    /// Offers plans of the store for other row counts of the families that the program has. False:
    /// there are none.
    bool offer_ahead();
    void plan_heaviest(std::deque<SiteId>::iterator heaviest);
    bool open_site(Site& site);
    void decide_layout(Site& site, Family& family);
    bool verified(Site& site, const Candidate& candidate);
    bool try_proposal(Site& site, const policy::Proposal& proposal, bool may_compile);
    void judge(Site& site, const policy::Proposal& proposal, PreparedPlan& prepared,
               const TrialResult& result);
    void send_offer(Site& site, OfferKind kind, bool served_before = false);
    void settle(Site& site);
    void dump(const Site& site);
    bool layout_fits(const Site& site, const jit::Plan& plan) const;
    base::Result<PreparedPlan> prepare(const Site& site, const jit::Schedule& schedule,
                                       bool may_compile);
    base::Result<PreparedPlan> prepare(jit::Plan plan, const jit::Schedule& schedule,
                                       bool may_compile);
    TrialResult run_trial(Site& site, const Candidate& candidate, const Candidate* incumbent,
                          const TrialOptions& options);
    void count_refusal(Site& site, const TrialResult& result, const std::string& what);
    void quarantine(Site& site, const std::string& schedule, const std::string& reason);
    using StoreChange = std::function<base::Result<void>(Store&)>;
    /// Changes the store now, or later when others hold it; gives it up with one line when it
    /// cannot be changed.
    void change_store(StoreChange change);
    void write_pending();
    void change_state(const Site& site, const std::string& schedule, PlanState state);
    /// The analytical draft; with a layout, only schedules whose frozen operand is packed so.
    std::vector<jit::Schedule> draft(const Site& site, size_t count, bool ready_only,
                                     uint64_t layout);
    uint64_t layout_of(const Site& site) const;
    bool compile_allowed() const;
    double compute_bound_ns(const Site& site) const;
    double bound_of(const Site& site);

    WorkshopSettings settings_;
    std::unique_ptr<Executor> executor_;
    std::unique_ptr<Store> store_;
    StoreContents stored_;
    std::deque<StoreChange> pending_;  ///< changes that wait for other processes
    int64_t write_not_before_ns_ = 0;
    std::unordered_map<uint64_t, size_t> stored_index_;  ///< hash of an operation: its plan
    /// Plans that a program served, by family, until a member of the family is called; then they go
    /// to ahead_, to be offered before their own row counts are called.
    std::unordered_map<SiteId, std::vector<size_t>> stored_families_;
    std::deque<size_t> ahead_;
    Outbox& outbox_;
    KernelSource kernels_;
    std::unique_ptr<policy::Policy> policy_;
    std::optional<jit::MachineModel> model_;
    std::map<SiteId, std::unique_ptr<Site>>
        sites_;  ///< ordered: decisions must not follow a hash table
    std::map<SiteId, Family> families_;
    std::unordered_map<int, Site*> site_of_task_;
    std::deque<SiteId> fresh_;
    std::unordered_set<uint64_t> checked_alone_;  ///< ids of microkernels
    double total_ns_ = 0;                         ///< of all sites, by the last profile
    uint64_t turn_ = 0;                           ///< steps so far
    base::UniqueFd measure_lock_;
    bool log_trials_ = false;  ///< WHET_LOG asks for every candidate
    int64_t trials_left_ = -1;
    bool held_ = false;
    uint64_t trials_ = 0, trials_without_compile_ = 0;
    uint64_t rejected_wrong_ = 0, rejected_crashed_ = 0, rejected_slow_ = 0, rejected_planted_ = 0;
    SiteId working_on_ = 0;
    std::string doing_;
};

}  // namespace whet::runtime::forge
