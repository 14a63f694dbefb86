// SPDX-License-Identifier: Apache-2.0
// The default policy: bandits choose the site and the sketch, local descent chooses the parameters.
#include "policy/bandit/bandit_policy.hpp"

#include <algorithm>
#include <random>

#include "policy/bandit/sliding_window_ucb.hpp"
#include "policy/search/local_descent.hpp"

namespace whet::policy {
namespace {

constexpr double kRecentShare =
    0.2;  ///< Ansor's alpha: weight of the last round's gain against what may be left
constexpr int kPatience = 300;  ///< trials without a gain before a task is settled, at least
constexpr double kPatienceShare = 0.5;  ///< ... and at least this share of its trials so far
constexpr double kSettledBoundShare =
    0.97;  ///< bound over time above which nothing is left to gain
constexpr double kGain =
    0.995;  ///< a new best must lie below this part of the old one to count as a gain

struct Task {
    const base::SearchSpace* space = nullptr;
    std::vector<LocalDescent> sketches;
    SlidingWindowUcb sketch_bandit;
    double calls_per_s = 0, bound_ns = 0;
    double best_ns = 0;
    Proposal best;
    int64_t trials = 0, last_gain = 0, rounds = 0;
    double round_start_ns = 0;  ///< best time when the running round began
    double patience_factor = 1;
    bool exhausted = false, closed = false;
};

class BanditPolicy final : public Policy {
public:
    BanditPolicy(uint64_t seed, bool random_only) : random_(seed), random_only_(random_only) {}

    int add_task(const base::SearchSpace& space, std::vector<Proposal> drafts) override {
        Task task;
        task.space = &space;
        for (int sketch = 0; sketch < space.sketch_count(); ++sketch)
            task.sketches.emplace_back(space, sketch);
        for (const Proposal& draft : drafts) {
            task.sketches[static_cast<size_t>(draft.sketch)].add_draft(draft.point);
        }
        task.sketch_bandit.resize(task.sketches.size());
        tasks_.push_back(std::move(task));
        bandit_.resize(tasks_.size());
        return static_cast<int>(tasks_.size()) - 1;
    }

    void set_load(int task, double calls_per_s, double bound_ns) override {
        at(task).calls_per_s = calls_per_s;
        at(task).bound_ns = bound_ns;
    }

    int choose_task() override;
    std::vector<Proposal> propose(int task, int count) override;
    void report(int task, const Proposal& proposal, const Outcome& outcome) override;

    bool best(int task, Proposal* proposal, double* ns) const override {
        const Task& t = at(task);
        if (t.best_ns <= 0) return false;
        if (proposal != nullptr) *proposal = t.best;
        if (ns != nullptr) *ns = t.best_ns;
        return true;
    }

    bool settled(int task) const override {
        const Task& t = at(task);
        if (t.exhausted || t.closed) return true;
        if (t.best_ns > 0 && t.bound_ns / t.best_ns >= kSettledBoundShare) return true;
        const double patience =
            std::max<double>(kPatience, kPatienceShare * static_cast<double>(t.trials));
        return static_cast<double>(t.trials - t.last_gain) >= patience * t.patience_factor;
    }

    void close(int task) override { at(task).closed = true; }

    void reopen(int task) override {
        Task& t = at(task);
        t.closed = false;
        t.last_gain = t.trials;
        t.patience_factor *= 2;
    }

private:
    Task& at(int task) { return tasks_[static_cast<size_t>(task)]; }
    const Task& at(int task) const { return tasks_[static_cast<size_t>(task)]; }

    double weight(const Task& task) const {
        const double ns = task.best_ns > 0 ? task.best_ns : std::max(task.bound_ns, 1.0);
        return std::max(task.calls_per_s, kUnknownRate) * ns;
    }
    int choose_sketch(Task& task);
    void close_round(int task);

    static constexpr double kUnknownRate =
        1e-3;  ///< calls a second assumed of a site without a profile

    std::mt19937_64 random_;
    bool random_only_;
    std::vector<Task> tasks_;
    SlidingWindowUcb bandit_;
    int next_ = 0;  ///< round robin of the random policy
    int open_round_ = -1;
};

int BanditPolicy::choose_task() {
    if (open_round_ >= 0) close_round(open_round_);
    open_round_ = -1;
    std::vector<bool> open(tasks_.size()), called(tasks_.size());
    std::vector<double> priors(tasks_.size());
    bool any = false, any_called = false;
    for (size_t i = 0; i < tasks_.size(); ++i) {
        open[i] = !settled(static_cast<int>(i));
        called[i] = open[i] && tasks_[i].calls_per_s > 0;
        priors[i] = weight(tasks_[i]);
        any = any || open[i];
        any_called = any_called || called[i];
    }
    if (!any) return -1;
    if (any_called)
        open = called;  // what the program does not call waits until the rest is settled
    int chosen = -1;
    if (random_only_) {
        do chosen = next_++ % static_cast<int>(tasks_.size());
        while (!open[static_cast<size_t>(chosen)]);
    } else {
        chosen = bandit_.choose(open, priors);
    }
    at(chosen).round_start_ns = at(chosen).best_ns;
    open_round_ = chosen;
    return chosen;
}

void BanditPolicy::close_round(int task) {
    Task& t = at(task);
    ++t.rounds;
    double total = 0;
    for (const Task& other : tasks_) total += weight(other);
    const double share = total > 0 ? weight(t) / total : 0;
    double recent = 0, left = 1;
    if (t.best_ns > 0) {
        if (t.round_start_ns > 0) recent = std::max(0.0, 1 - t.best_ns / t.round_start_ns);
        const double headroom = std::clamp(1 - t.bound_ns / t.best_ns, 0.0, 1.0);
        left = std::min(headroom, 1 / static_cast<double>(t.rounds));
    }
    bandit_.update(task, share * (kRecentShare * recent + (1 - kRecentShare) * left));
}

int BanditPolicy::choose_sketch(Task& task) {
    std::vector<bool> open;
    std::vector<double> priors;
    bool any = false;
    for (const LocalDescent& sketch : task.sketches) {
        open.push_back(!sketch.exhausted());
        any = any || open.back();
        // the smaller the estimate of the best draft, the earlier the sketch is tried
        priors.push_back(sketch.draft_ns() > 0 ? 1 / sketch.draft_ns() : 0);
    }
    return any ? task.sketch_bandit.choose(open, priors) : -1;
}

std::vector<Proposal> BanditPolicy::propose(int task, int count) {
    Task& t = at(task);
    std::vector<Proposal> proposals;
    while (static_cast<int>(proposals.size()) < count) {
        const int sketch = choose_sketch(t);
        if (sketch < 0) {
            t.exhausted = true;
            break;
        }
        LocalDescent& descent = t.sketches[static_cast<size_t>(sketch)];
        // a round stays with one sketch, so that its reward is the sketch's
        while (static_cast<int>(proposals.size()) < count) {
            Proposal proposal{sketch, {}};
            if (!descent.propose(random_, random_only_, &proposal.point)) {
                if (!random_only_) break;
                if (!descent.exhausted()) break;
            }
            if (descent.exhausted()) break;
            proposals.push_back(std::move(proposal));
        }
        if (!descent.exhausted()) break;
    }
    return proposals;
}

void BanditPolicy::report(int task, const Proposal& proposal, const Outcome& outcome) {
    Task& t = at(task);
    const bool timed = outcome.kind == OutcomeKind::timed && outcome.ns > 0;
    t.sketches[static_cast<size_t>(proposal.sketch)].report(proposal.point, timed ? outcome.ns : 0);
    if (outcome.kind == OutcomeKind::skipped) return;
    ++t.trials;
    if (!timed) {
        t.sketch_bandit.update(proposal.sketch, 0);
        return;
    }
    if (t.best_ns <= 0 || outcome.ns < t.best_ns) {
        if (t.best_ns <= 0 || outcome.ns < kGain * t.best_ns) t.last_gain = t.trials;
        t.best_ns = outcome.ns;
        t.best = proposal;
    }
    t.sketch_bandit.update(proposal.sketch, t.best_ns / outcome.ns);
}

}  // namespace

std::unique_ptr<Policy> make_bandit_policy(uint64_t seed) {
    return std::make_unique<BanditPolicy>(seed, false);
}
std::unique_ptr<Policy> make_random_policy(uint64_t seed) {
    return std::make_unique<BanditPolicy>(seed, true);
}

}  // namespace whet::policy
