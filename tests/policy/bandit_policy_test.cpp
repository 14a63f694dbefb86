// SPDX-License-Identifier: Apache-2.0
// Tests of the policies on a fake space with scripted costs.
#include "policy/policy.hpp"

#include <algorithm>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "tests/policy/fake_space.hpp"

namespace whet::policy {
namespace {

constexpr int kKnobs = 5;

std::vector<Proposal> drafts_of(const FakeSpace& space, int16_t choice) {
    std::vector<Proposal> drafts;
    for (int sketch = 0; sketch < space.sketch_count(); ++sketch)
        drafts.push_back({sketch, base::Point(kKnobs, choice)});
    return drafts;
}

int run(Policy& policy, const std::vector<const FakeSpace*>& spaces, int trials, int batch = 8) {
    int done = 0;
    while (done < trials) {
        const int task = policy.choose_task();
        if (task < 0) break;
        const auto proposals = policy.propose(task, batch);
        for (const Proposal& p : proposals) {
            policy.report(task, p,
                          {OutcomeKind::timed,
                           spaces[static_cast<size_t>(task)]->true_ns(p.sketch, p.point)});
            ++done;
        }
    }
    return done;
}

TEST(BanditPolicy, FindsTheOptimumThoughTheModelIsShifted) {
    const FakeSpace space({{200, 9}, {100, 4}, {150, 2}}, kKnobs, 12, 2, 0.3);
    auto policy = make_policy("auto", 1);
    ASSERT_TRUE(policy);
    ASSERT_EQ((*policy)->add_task(space, drafts_of(space, 7)), 0);
    run(**policy, {&space}, 400);
    Proposal best;
    double ns = 0;
    ASSERT_TRUE((*policy)->best(0, &best, &ns));
    EXPECT_EQ(best.sketch, 1);
    EXPECT_LE(ns, 101);
}

TEST(BanditPolicy, BeatsRandomOnTheSameSpaceAndBudget) {
    for (const uint64_t seed : {1, 2, 3, 4, 5}) {
        double ns[2] = {};
        int i = 0;
        for (const char* name : {"bandit", "random"}) {
            const FakeSpace space({{100, 9}, {120, 3}}, kKnobs, 12, 1);
            auto policy = make_policy(name, seed);
            (*policy)->add_task(space, drafts_of(space, 5));
            run(**policy, {&space}, 120);
            ASSERT_TRUE((*policy)->best(0, nullptr, &ns[i++]));
        }
        EXPECT_LE(ns[0], ns[1]) << "seed " << seed;
    }
}

TEST(BanditPolicy, IsDeterministicBySeedAndNeverRepeatsAPoint) {
    for (const char* name : {"bandit", "random"}) {
        std::vector<Proposal> first;
        for (int round = 0; round < 2; ++round) {
            const FakeSpace space({{100, 3}, {100, 8}}, kKnobs, 12);
            auto policy = make_policy(name, 42);
            (*policy)->add_task(space, drafts_of(space, 5));
            std::vector<Proposal> all;
            std::set<std::pair<int, base::Point>> distinct;
            for (int i = 0; i < 20; ++i) {
                for (const Proposal& p : (*policy)->propose(0, 8)) {
                    EXPECT_TRUE(distinct.emplace(p.sketch, p.point).second) << name;
                    EXPECT_TRUE(space.legal(p.sketch, p.point, nullptr));
                    (*policy)->report(0, p, {OutcomeKind::timed, space.true_ns(p.sketch, p.point)});
                    all.push_back(p);
                }
            }
            if (round == 0)
                first = all;
            else
                EXPECT_TRUE(first == all) << name;
        }
    }
}

TEST(BanditPolicy, SpendsTrialsWhereTheProgramSpendsItsTime) {
    const FakeSpace heavy({{1000, 9}}, kKnobs, 12, 3), light({{1000, 9}}, kKnobs, 12, 3);
    auto policy = make_policy("bandit", 7);
    (*policy)->add_task(light, drafts_of(light, 2));
    (*policy)->add_task(heavy, drafts_of(heavy, 2));
    (*policy)->set_load(0, 1, 100);
    (*policy)->set_load(1, 1000, 100);
    EXPECT_EQ((*policy)->choose_task(), 1);
    int plays[2] = {};
    for (int i = 0; i < 40; ++i) {
        const int task = (*policy)->choose_task();
        ++plays[task];
        const FakeSpace& space = task == 0 ? light : heavy;
        for (const Proposal& p : (*policy)->propose(task, 2)) {
            (*policy)->report(task, p, {OutcomeKind::timed, space.true_ns(p.sketch, p.point)});
        }
    }
    EXPECT_GT(plays[1], 2 * plays[0]);
    EXPECT_GT(plays[0], 0);
}

TEST(BanditPolicy, SettlesAtTheBoundAfterPatienceAndWhenUsedUp) {
    const FakeSpace space({{100, 5}}, kKnobs, 12);
    auto policy = make_policy("bandit", 3);
    (*policy)->add_task(space, drafts_of(space, 5));
    (*policy)->set_load(0, 10, 99);
    run(**policy, {&space}, 8);
    EXPECT_TRUE((*policy)->settled(0));
    EXPECT_EQ((*policy)->choose_task(), -1);

    (*policy)->set_load(0, 10, 10);
    const int done = run(**policy, {&space}, 100000);
    EXPECT_LT(done, 2000);
    EXPECT_TRUE((*policy)->settled(0));
    (*policy)->reopen(0);
    EXPECT_FALSE((*policy)->settled(0));
    (*policy)->close(0);
    EXPECT_TRUE((*policy)->settled(0));

    const FakeSpace tiny({{100, 0}}, 1, 3);
    auto second = make_policy("bandit", 3);
    (*second)->add_task(tiny, {{0, base::Point{1}}});
    EXPECT_EQ(run(**second, {&tiny}, 100), 3);
    EXPECT_TRUE((*second)->settled(0));
}

TEST(BanditPolicy, SkippedPointsCostNoPatienceAndDoNotComeBack) {
    const FakeSpace space({{100, 5}}, 3, 12);
    auto policy = make_policy("bandit", 3);
    (*policy)->add_task(space, {{0, {0, 0, 0}}});
    std::set<base::Point> distinct;
    for (int i = 0; i < 100; ++i) {
        for (const Proposal& p : (*policy)->propose(0, 4)) {
            EXPECT_TRUE(distinct.insert(p.point).second);
            const bool skip = p.point[0] % 2 != 0;
            (*policy)->report(
                0, p,
                skip ? Outcome{OutcomeKind::skipped, 0} : Outcome{OutcomeKind::timed, 1000.0 + i});
            EXPECT_TRUE(i >= 40 || !(*policy)->settled(0));
        }
    }
    EXPECT_GT(distinct.size(), 300u);
}

TEST(BanditPolicy, SurvivesASpaceWhereEverythingIsRefused) {
    const FakeSpace space({{100, 5}, {100, 5}}, 2, 4);
    auto policy = make_policy("bandit", 3);
    (*policy)->add_task(space, {{0, {0, 0}}, {1, {0, 0}}});
    int trials = 0;
    while (const int task = (*policy)->choose_task() + 1) {
        for (const Proposal& p : (*policy)->propose(task - 1, 4)) {
            (*policy)->report(task - 1, p, {});
            ++trials;
        }
        ASSERT_LT(trials, 1000);
    }
    EXPECT_GT(trials, 2);
    EXPECT_FALSE((*policy)->best(0, nullptr, nullptr));
}

TEST(PolicyRegistry, RefusesUnknownNamesAndListsTheKnown) {
    const auto policy = make_policy("ppo2", 1);
    ASSERT_FALSE(policy);
    EXPECT_NE(policy.error().message.find("expected one of auto, bandit"), std::string::npos);
    for (const PolicyEntry& entry : policies())
        EXPECT_TRUE(make_policy(entry.name, 1)) << entry.name;
}

}  // namespace
}  // namespace whet::policy
