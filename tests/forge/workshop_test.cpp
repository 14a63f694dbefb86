// SPDX-License-Identifier: Apache-2.0
// Tests of the forge's work without its socket, on the portable level and, where the CPU allows, on
// AVX2.
#include "runtime/forge/workshop.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/host.hpp"
#include "runtime/dispatch/operation.hpp"
#include "runtime/forge/text_request.hpp"
#include "runtime/forge/worker.hpp"
#include "tests/forge/ops.hpp"

namespace whet::runtime::forge {
namespace {

class Recorder final : public Outbox {
public:
    void offer(const OfferMessage& offer) override { offers.push_back(offer); }
    void log(base::Level level, const std::string& text) override {
        if (level <= base::Level::warning) warnings.push_back(text);
    }
    std::vector<OfferMessage> offers;
    std::vector<std::string> warnings;
};

class WorkshopTest : public testing::Test {
protected:
    void SetUp() override {
        char name[] = "/tmp/whet_workshop_test_XXXXXX";
        folder_ = mkdtemp(name);
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    std::unique_ptr<Workshop> make(jit::Isa isa, bool with_store, bool worker = false) {
        WorkshopSettings settings;
        settings.isa = isa;
        settings.directory = WHET_FORGE_DIRECTORY;
        settings.options.seed = 1;
        settings.options.dump_directory = dump_directory_;
        settings.options.test_hooks = true;
        settings.options.budget_memory_bytes = 256 << 20;
        std::unique_ptr<Store> store;
        if (with_store) {
            settings.options.store_path = folder_ + "/store.db";
            auto opened = Store::open(settings.options.store_path, machine_key(isa));
            EXPECT_TRUE(opened) << opened.error().message;
            store = std::move(*opened);
        }
        ExecutorSettings executor;
        executor.isa = isa;
        executor.memory_bytes = 256u << 20;
        if (!worker) {
            return std::make_unique<Workshop>(settings, make_local_executor(executor, true),
                                              std::move(store), recorder_);
        }
        auto zygote = Zygote::start(false);
        return std::make_unique<Workshop>(settings,
                                          make_worker_executor(std::move(*zygote), executor),
                                          std::move(store), recorder_);
    }

    static SiteMessage site_message(SiteId id, const whet_op& op) {
        SiteMessage message;
        message.site = id;
        message.family = id + 1000;
        message.op = op;
        return message;
    }

    std::string folder_, dump_directory_;
    Recorder recorder_;
};

TEST_F(WorkshopTest, OffersAFirstPlanThenSearchesWithinItsTrials) {
    auto workshop = make(jit::Isa::portable, false);
    workshop->add_site(site_message(7, matmul_op(8, 16, 24)));
    EXPECT_TRUE(recorder_.offers.empty());
    EXPECT_TRUE(workshop->step());
    ASSERT_EQ(recorder_.offers.size(), 1u);
    EXPECT_EQ(recorder_.offers[0].site, 7u);
    EXPECT_EQ(recorder_.offers[0].kind, OfferKind::zero_trial);
    EXPECT_TRUE(jit::Schedule::parse(recorder_.offers[0].schedule));
    workshop->set_trials_left(12);
    for (int i = 0; i < 100 && workshop->step(); ++i) {
    }
    EXPECT_EQ(workshop->status().trials, 12u);
    EXPECT_EQ(workshop->status().rejected_wrong, 0u);
    EXPECT_FALSE(workshop->step());
}

TEST_F(WorkshopTest, SearchesOnWhereEverythingIsSettled) {
    auto workshop = make(jit::Isa::portable, false);
    workshop->add_site(site_message(7, matmul_op(4, 16, 16)));
    for (int i = 0; i < 10000 && workshop->step(); ++i) {
    }
    EXPECT_EQ(workshop->status().sites_open, 0u);
    const uint64_t settled_trials = workshop->status().trials;
    EXPECT_EQ(workshop->search_on(), 1);
    EXPECT_EQ(workshop->search_on(), 1);
    EXPECT_EQ(workshop->status().sites_open, 1u);
    EXPECT_TRUE(workshop->step());
    EXPECT_GT(workshop->status().trials, settled_trials);
}

TEST_F(WorkshopTest, HeldItServesNewSitesWithoutATrial) {
    auto workshop = make(jit::Isa::portable, false);
    const auto answer = [&](const std::string& request) {
        std::string text;
        answer_text(*workshop, request, [&](const std::string& part, bool) {
            text += part;
            return true;
        });
        return text;
    };
    EXPECT_EQ(answer("hold on"), "on\n");
    workshop->add_site(site_message(7, matmul_op(4, 16, 16)));
    for (int i = 0; i < 100 && workshop->step(); ++i) {
    }
    EXPECT_EQ(recorder_.offers.size(), 1u);
    EXPECT_EQ(workshop->status().trials, 0u);
    EXPECT_EQ(answer("hold off"), "off\n");
    for (int i = 0; i < 100 && workshop->step(); ++i) {
    }
    EXPECT_GT(workshop->status().trials, 0u);
    EXPECT_TRUE(answer("hold").starts_with("error: got request 'hold'"));
}

TEST_F(WorkshopTest, DumpsWhatItOffers) {
    dump_directory_ = folder_;
    auto workshop = make(jit::Isa::portable, false);
    workshop->add_site(site_message(0xabc, matmul_op(8, 16, 24)));
    ASSERT_TRUE(workshop->step());
    std::ifstream file(folder_ + "/0000000000000abc.txt");
    std::string text((std::istreambuf_iterator<char>(file)), {});
    EXPECT_NE(text.find(recorder_.offers.at(0).schedule), std::string::npos) << text;

    dump_directory_ = folder_ + "/missing";
    recorder_.offers.clear();
    workshop = make(jit::Isa::portable, false);
    workshop->add_site(site_message(1, matmul_op(8, 16, 24)));
    ASSERT_TRUE(workshop->step());
    EXPECT_EQ(recorder_.offers.size(), 1u);
    EXPECT_EQ(recorder_.warnings.size(), 1u);
}

TEST_F(WorkshopTest, UnsupportedSitesAreClosedNotTried) {
    auto workshop = make(jit::Isa::portable, false);
    whet_op negative = matmul_op(4, 4, 4);
    negative.operands[WHET_A].strides[0] = -4;
    workshop->add_site(site_message(1, negative));
    workshop->add_site(site_message(2, matmul_op(0, 4, 4)));
    EXPECT_FALSE(workshop->step());
    EXPECT_EQ(workshop->status().sites_settled, 2u);
    EXPECT_TRUE(recorder_.offers.empty());
}

TEST_F(WorkshopTest, StoredPlansComeBackAtOnceAndQuarantineLasts) {
    const whet_op op = matmul_op(8, 16, 24);
    std::string schedule;
    {
        auto workshop = make(jit::Isa::portable, true);
        workshop->add_site(site_message(7, op));
        while (recorder_.offers.empty()) ASSERT_TRUE(workshop->step());
        schedule = recorder_.offers[0].schedule;
        workshop->take_verdict({7, VerdictKind::adopted, schedule, 0});
    }
    recorder_.offers.clear();
    {
        auto workshop = make(jit::Isa::portable, true);
        workshop->add_site(site_message(7, op));
        ASSERT_EQ(recorder_.offers.size(), 1u);
        EXPECT_EQ(recorder_.offers[0].kind, OfferKind::stored);
        EXPECT_EQ(recorder_.offers[0].schedule, schedule);
        workshop->take_verdict({7, VerdictKind::wrong, schedule, 0});
        ASSERT_FALSE(recorder_.warnings.empty());
        recorder_.offers.clear();
        while (recorder_.offers.empty()) ASSERT_TRUE(workshop->step());
        EXPECT_NE(recorder_.offers[0].schedule, schedule);
    }
    recorder_.offers.clear();
    auto workshop = make(jit::Isa::portable, true);
    workshop->add_site(site_message(7, op));
    while (recorder_.offers.empty()) ASSERT_TRUE(workshop->step());
    EXPECT_NE(recorder_.offers[0].schedule, schedule);
}

TEST_F(WorkshopTest, OffersAFamilysStoredPlansBeforeTheyAreCalled) {
    const auto message_of = [](int64_t m, int64_t n) {
        const whet_op op = canonical(matmul_op(m, 16, n));
        return SiteMessage{operation_id(op), family_id(op), op};
    };
    const SiteMessage small = message_of(4, 24), large = message_of(9, 24),
                      declined = message_of(17, 24), stranger = message_of(4, 40);
    ASSERT_EQ(small.family, large.family);
    ASSERT_NE(small.family, stranger.family);
    {
        auto workshop = make(jit::Isa::portable, true);
        for (const SiteMessage& message : {small, large, declined, stranger}) {
            recorder_.offers.clear();
            workshop->add_site(message);
            while (recorder_.offers.empty()) ASSERT_TRUE(workshop->step());
            const auto kind = message.site == declined.site ? VerdictKind::declined
                                                            : VerdictKind::adopted;
            workshop->take_verdict({message.site, kind, recorder_.offers[0].schedule, 0});
        }
    }
    recorder_.offers.clear();
    auto workshop = make(jit::Isa::portable, true);
    workshop->add_site(small);
    ASSERT_EQ(recorder_.offers.size(), 1u);
    EXPECT_EQ(recorder_.offers[0].ahead, 0);
    workshop->step();
    ASSERT_EQ(recorder_.offers.size(), 2u);
    EXPECT_EQ(recorder_.offers[1].site, large.site);
    EXPECT_EQ(recorder_.offers[1].ahead, 1);
    EXPECT_EQ(recorder_.offers[1].served_before, 1);
    EXPECT_EQ(std::memcmp(&recorder_.offers[1].op, &large.op, sizeof(whet_op)), 0);
    // Nothing is searched there before the program calls it.
    workshop->add_site(large);
    EXPECT_EQ(recorder_.offers.size(), 2u);
    EXPECT_TRUE(workshop->find_site(large.site)->ahead);
    workshop->set_profile({{{large.site, 1, 1e6, 1}}});
    EXPECT_FALSE(workshop->find_site(large.site)->ahead);
}

TEST_F(WorkshopTest, ProcessesThatShareAStoreAreAllServed) {
    const auto child = [this] {
        auto workshop = make(jit::Isa::portable, true);
        workshop->add_site(site_message(7, matmul_op(8, 16, 24)));
        workshop->set_trials_left(12);
        for (int i = 0; i < 100 && workshop->step(); ++i) {
        }
        return recorder_.offers.empty() || !recorder_.warnings.empty() ? 1 : 0;
    };
    pid_t children[3];
    for (pid_t& pid : children) {
        pid = fork();
        ASSERT_GE(pid, 0);
        if (pid == 0) _exit(child());
    }
    for (const pid_t pid : children) {
        int status = -1;
        ASSERT_EQ(waitpid(pid, &status, 0), pid);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    }
    auto workshop = make(jit::Isa::portable, true);
    workshop->add_site(site_message(7, matmul_op(8, 16, 24)));
    ASSERT_EQ(recorder_.offers.size(), 1u);
    EXPECT_EQ(recorder_.offers[0].kind, OfferKind::stored);
}

TEST_F(WorkshopTest, MembersOfAFamilyShareOnePackedLayout) {
    if (!base::host_features().avx2_fma) GTEST_SKIP() << "no AVX2";
    auto workshop = make(jit::Isa::avx2, false);
    SiteId id = 1;
    for (const int64_t m : {1, 7, 32, 64}) {
        SiteMessage message = site_message(id++, matmul_op(m, 64, 96, true, true));
        message.family = 5;
        workshop->add_site(message);
    }
    workshop->set_trials_left(60);
    for (int i = 0; i < 200 && workshop->step(); ++i) {
    }
    for (const auto& [site_id, site] : workshop->sites()) ASSERT_TRUE(site->has_best) << site->note;
    // From the very first offer on: a second layout would need a second copy of each weight.
    std::set<uint64_t> layouts;
    for (const OfferMessage& offer : recorder_.offers) {
        const auto schedule = jit::Schedule::parse(offer.schedule);
        ASSERT_TRUE(schedule) << offer.schedule;
        const auto plan =
            jit::lower(workshop->find_site(offer.site)->op, *schedule, jit::Isa::avx2);
        ASSERT_TRUE(plan) << plan.error().message;
        layouts.insert(plan->frozen[WHET_B].id);
    }
    EXPECT_EQ(layouts.size(), 1u);
    EXPECT_GE(recorder_.offers.size(), 4u);
    EXPECT_EQ(workshop->status().rejected_wrong, 0u);
}

TEST_F(WorkshopTest, TriesNoLayoutWithoutTrials) {
    if (!base::host_features().avx2_fma) GTEST_SKIP() << "no AVX2";
    auto workshop = make(jit::Isa::avx2, false);
    workshop->add_site(site_message(1, matmul_op(32, 64, 96, true, true)));
    workshop->set_trials_left(0);
    for (int i = 0; i < 10 && workshop->step(); ++i) {
    }
    ASSERT_EQ(recorder_.offers.size(), 1u);
    EXPECT_EQ(recorder_.offers[0].kind, OfferKind::zero_trial);
    EXPECT_EQ(workshop->status().trials, 0u);
}

TEST_F(WorkshopTest, PlantedCandidatesAreRefusedCountedAndHarmNothing) {
    if (!base::host_features().avx2_fma) GTEST_SKIP() << "no AVX2";
    auto workshop = make(jit::Isa::avx2, false, true);
    workshop->add_site(site_message(7, matmul_op(64, 32, 65)));
    while (recorder_.offers.empty()) ASSERT_TRUE(workshop->step());
    recorder_.offers.clear();
    const std::vector<std::vector<uint8_t>> codes = {
        {0x0f, 0x0b}, {0xeb, 0xfe}, {0x31, 0xc0, 0x8b, 0x00, 0xc3}, {0xc3}};
    for (const bool skip : {false, true}) {
        for (const auto& code : codes) {
            PlantMessage plant;
            plant.site = 7;
            plant.is_blob = 1;
            plant.skip_static = skip;
            plant.content = code;
            workshop->plant(plant);
        }
    }
    PlantMessage nonsense;
    nonsense.site = 7;
    nonsense.content = {'x'};
    workshop->plant(nonsense);
    EXPECT_TRUE(recorder_.offers.empty());
    const StatusMessage status = workshop->status();
    EXPECT_GE(status.rejected_static,
              3u);  // a lone `ret` may pass the static check; its result is wrong
    EXPECT_EQ(status.rejected_crashed, 3u);
    EXPECT_GE(status.rejected_wrong, 2u);
    EXPECT_GE(recorder_.warnings.size(), 9u);
    // The site goes on.
    workshop->set_trials_left(4);
    for (int i = 0; i < 50 && workshop->step(); ++i) {
    }
    EXPECT_EQ(workshop->status().trials, 4u);
}

/// C01: code that is right only when the lanes of a tile are a multiple of eight, and code that
/// keeps a count in itself.
TEST_F(WorkshopTest, CodeThatIsWrongForOneRemainderIsRefusedThereOnly) {
    if (!base::host_features().avx2_fma) GTEST_SKIP() << "no AVX2";
    auto workshop = make(jit::Isa::avx2, false, true);
    for (const int64_t n : {64, 65, 127, 8}) {
        const auto id = static_cast<SiteId>(n);
        workshop->add_site(site_message(id, matmul_op(24, 32, n, true, true)));
        while (!workshop->find_site(id)->has_best) ASSERT_TRUE(workshop->step());
        recorder_.offers.clear();
        const jit::Blob& blob = workshop->find_site(id)->best.kernels[0]->blob;
        // mov rax, [rdi + lanes]; test al, 7; je +1; ret; jmp original
        std::vector<uint8_t> code = {
            0x48, 0x8b, 0x47, offsetof(jit::TileArgs, lanes), 0xa8, 0x07, 0x74, 0x01, 0xc3, 0xe9};
        const uint32_t distance = 64 + blob.entry - 14;
        for (int i = 0; i < 4; ++i) code.push_back(static_cast<uint8_t>(distance >> 8 * i));
        code.resize(64, 0x90);  // keeps the alignment of the code's constants
        code.insert(code.end(), blob.bytes.begin(), blob.bytes.end());
        PlantMessage plant;
        plant.site = id;
        plant.is_blob = 1;
        plant.skip_static = 1;
        plant.content = code;
        workshop->plant(plant);
        const bool right = n % 8 == 0;
        EXPECT_EQ(recorder_.offers.size(), right ? 1u : 0u)
            << "n " << n << ": " << workshop->find_site(id)->note;
    }
    EXPECT_EQ(workshop->status().rejected_wrong, 2u);
    const std::vector<uint8_t> counter = {0xff, 0x05, 0x01, 0, 0, 0,
                                          0xc3, 0,    0,    0, 0};  // inc dword [rip + 1]; ret
    PlantMessage plant;
    plant.site = 65;
    plant.is_blob = 1;
    plant.content = counter;
    recorder_.offers.clear();
    workshop->plant(plant);
    EXPECT_EQ(workshop->status().rejected_static, 1u);
    plant.skip_static = 1;
    workshop->plant(plant);
    EXPECT_EQ(workshop->status().rejected_crashed,
              1u);  // code memory is not writable where it runs
    EXPECT_TRUE(recorder_.offers.empty());
}

/// A program with many row counts: one search for a neighbourhood, the others have its schedule.
TEST_F(WorkshopTest, LendsTheScheduleOfTheNearestRowCount) {
    auto workshop = make(jit::Isa::portable, true);
    workshop->set_trials_left(0);  // lending needs none
    const auto add = [&](SiteId id, int64_t rows) {
        SiteMessage message = site_message(id, matmul_op(rows, 40, 24, true, true));
        message.family = 7;
        workshop->add_site(message);
    };
    add(1, 20);
    ASSERT_TRUE(workshop->step());
    ASSERT_EQ(recorder_.offers.size(), 1u);
    EXPECT_EQ(recorder_.offers[0].kind, OfferKind::zero_trial);
    add(2, 23);  // near: lent
    add(3, 2);   // far: a first plan of its own
    while (recorder_.offers.size() < 3) ASSERT_TRUE(workshop->step());
    EXPECT_EQ(recorder_.offers[1].site, 2u);
    EXPECT_EQ(recorder_.offers[1].kind, OfferKind::lent);
    EXPECT_EQ(recorder_.offers[1].schedule, recorder_.offers[0].schedule);
    EXPECT_EQ(recorder_.offers[2].site, 3u);
    EXPECT_EQ(recorder_.offers[2].kind, OfferKind::zero_trial);

    // A better plan of the leader goes to its followers once the program has adopted it.
    ASSERT_EQ(workshop->find_site(2)->stage, Site::Stage::lent);
    std::string better = recorder_.offers[0].schedule;
    // Other rows of the register tile: the packed weights stay as they are.
    const size_t at = better.find("tile=");
    ASSERT_NE(at, std::string::npos);
    better.replace(at, better.find('x', at) - at, "tile=3");
    ASSERT_NE(better, recorder_.offers[0].schedule);
    VerdictMessage adopted;
    adopted.site = 1;
    adopted.kind = VerdictKind::adopted;
    adopted.schedule = better;
    workshop->take_verdict(adopted);
    workshop->step();
    ASSERT_EQ(recorder_.offers.size(), 4u);
    EXPECT_EQ(recorder_.offers[3].site, 2u);
    EXPECT_EQ(recorder_.offers[3].kind, OfferKind::lent);
    EXPECT_EQ(recorder_.offers[3].schedule, better);
    EXPECT_EQ(workshop->status().trials, 0u);
}

TEST_F(WorkshopTest, NoMicrokernelIsLentThatFailsAlone) {
    if (!base::host_features().avx2_fma) GTEST_SKIP() << "this processor has no AVX2";
    auto workshop = make(jit::Isa::avx2, false, true);
    const whet_op op = matmul_op(12, 64, 32, true, true);
    SiteMessage message = site_message(1, op);
    message.family = 7;
    workshop->add_site(message);
    ASSERT_TRUE(workshop->step());
    ASSERT_EQ(recorder_.offers.size(), 1u);
    // The code for the rows that only the other site needs is replaced by code that does nothing.
    const whet_op other = matmul_op(13, 64, 32, true, true);
    const auto schedule = jit::Schedule::parse(recorder_.offers[0].schedule);
    const auto own = jit::lower(op, *schedule, jit::Isa::avx2);
    const auto theirs = jit::lower(other, *schedule, jit::Isa::avx2);
    ASSERT_TRUE(own && theirs);
    int planted = 0;
    for (const auto& spec : theirs->kernels) {
        if (std::find(own->kernels.begin(), own->kernels.end(), spec) != own->kernels.end())
            continue;
        jit::Blob nothing;
        nothing.spec = spec;
        nothing.bytes.assign(64, 0xc3);  // ret
        nothing.text_bytes = 64;
        workshop->kernels().add_stored({nothing});
        ++planted;
    }
    ASSERT_GT(planted, 0);
    message = site_message(2, other);
    message.family = 7;
    workshop->add_site(message);
    workshop->step();
    for (const OfferMessage& offer : recorder_.offers)
        EXPECT_TRUE(offer.site == 1 || offer.kind != OfferKind::lent);
    EXPECT_GT(workshop->status().rejected_wrong, 0u);
}

}  // namespace
}  // namespace whet::runtime::forge
