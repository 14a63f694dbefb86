// SPDX-License-Identifier: Apache-2.0
// Every peer computes what the bench's own loops compute, in run_into as on every copy of its
// weights.
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tools/whet/bench/buffers.hpp"
#include "tools/whet/bench/case.hpp"
#include "tools/whet/bench/peers.hpp"
#include "tools/whet/bench/reference.hpp"

namespace whet::bench {
namespace {

constexpr const char* kRows[] = {
    "linear m=5 k=17 n=33",
    "gemm m=3 k=5 n=7",
    "bmm batch=2 m=4 k=6 n=9",
    "conv1d batch=2 in_channels=4 out_channels=6 spatial=11 kernel=3 stride=2 padding=1",
    "conv2d batch=1 in_channels=4 out_channels=8 spatial=9x7 kernel=3x3 stride=1 padding=1 "
    "dilation=2",
    "conv2d batch=2 in_channels=6 out_channels=6 spatial=8x8 kernel=3x3 stride=2 padding=1 "
    "groups=6",
    "conv3d batch=1 in_channels=2 out_channels=3 spatial=5x6x7 kernel=3x3x3 stride=1 padding=1",
    "conv_transpose2d batch=1 in_channels=4 out_channels=3 spatial=5x5 kernel=4x4 stride=2 "
    "padding=1",
    "softmax rows=4 columns=19",
    "norm batch=3 m=4 n=5",
};

class Peers : public testing::TestWithParam<const char*> {
protected:
    Peer open() {
        try {
            return open_peers({GetParam()}, 1).front();
        } catch (const std::runtime_error& missing) {
            reason_ = missing.what();
            return {};
        }
    }
    std::string reason_;
};

TEST_P(Peers, ComputeWhatTheReferenceComputes) {
    const Peer peer = open();
    if (!peer.module) GTEST_SKIP() << reason_;
    int computed = 0;
    for (const char* text : kRows) {
        SCOPED_TRACE(text);
        const Case one = parse_case_text(text);
        const Extents b_extents = one.b_extents();
        const int64_t count = count_of(one.dst_extents());
        const Floats a = random_floats(count_of(one.a_extents()), 1),
                     b = random_floats(count_of(b_extents), 2);
        const Floats bias = one.has_bias() ? random_floats(one.shape.n, 3) : Floats();
        const Floats expected = random_floats(count, 4), got = random_floats(count, 5);
        const std::vector<const float*> copies(2, b.get());
        char error[256] = "";
        const Runnable runnable(
            peer.module->make(peer.name.c_str(), &one.shape, a.get(), copies.data(), 2, bias.get(),
                              error, sizeof error),
            RunnableDeleter{peer.module});
        if (!runnable) {
            EXPECT_STRNE(error, "");
            continue;
        }
        ++computed;
        peer.module->run(runnable.get(), 1);
        peer.module->run_at(runnable.get(), 0, got.get());
        if (peer.name == "mkl-packed") continue;  // it has packed weights only
        peer.module->run_into(runnable.get(), got.get(), a.get(), b.get(), bias.get());
        compute_reference(one.shape, expected.get(), a.get(), b.get(), bias.get());
        for (int64_t i = 0; i < count; ++i)
            ASSERT_NEAR(got[static_cast<size_t>(i)], expected[static_cast<size_t>(i)], 1e-4)
                << "element " << i;
    }
    EXPECT_GE(computed, 2);
}

INSTANTIATE_TEST_SUITE_P(All, Peers, testing::Values("torch", "mkl-packed", "openblas"),
                         [](const auto& info) {
                             std::string name = info.param;
                             for (char& letter : name) letter = letter == '-' ? '_' : letter;
                             return name;
                         });

TEST(PeerNames, AreSplitAndUnknownOnesRefused) {
    EXPECT_EQ(split_names("a,b,,c"), (std::vector<std::string>{"a", "b", "c"}));
    EXPECT_THROW(open_peers({"nobody"}, 1), std::runtime_error);
}

}  // namespace
}  // namespace whet::bench
