// SPDX-License-Identifier: Apache-2.0
// Tests of the forge's frames: what is written is read, and short payloads are refused.
#include "runtime/forge/protocol.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include <gtest/gtest.h>

namespace whet::runtime::forge {
namespace {

OfferMessage some_offer() {
    OfferMessage m;
    m.site = 42;
    m.kind = OfferKind::tuned;
    m.schedule =
        "matmul a=in_place b=frozen order=lsr tile=14x2 unroll=4 prefetch=0 block=0x8x1 parallel=1";
    jit::Blob blob;
    blob.bytes = {0xc3, 1, 2, 3};
    blob.text_bytes = 1;
    m.blobs = {blob, blob};
    m.ratio = 1.5;
    m.bound_ns = 7;
    return m;
}

TEST(Protocol, AnOfferSurvivesTheWire) {
    const auto bytes = encode(some_offer());
    auto back = decode<OfferMessage>(bytes.data(), bytes.size());
    ASSERT_TRUE(back.has_value());
    EXPECT_EQ(back->site, 42u);
    EXPECT_EQ(back->schedule, some_offer().schedule);
    ASSERT_EQ(back->blobs.size(), 2u);
    EXPECT_EQ(back->blobs[1].bytes, some_offer().blobs[1].bytes);
    EXPECT_EQ(back->bound_ns, 7);
}

TEST(Protocol, EveryShortPayloadIsRefused) {
    const auto bytes = encode(some_offer());
    for (size_t size = 0; size < bytes.size(); ++size) {
        EXPECT_FALSE(decode<OfferMessage>(bytes.data(), size).has_value()) << size;
    }
}

TEST(Protocol, AHelloKeepsItsEnvironment) {
    HelloMessage m;
    m.directory = "/opt/whet/lib/whet";
    m.environment = {"WHET_SEED=3", "WHET_ISA=avx2"};
    m.isa = jit::Isa::avx512;
    const auto bytes = encode(m);
    auto back = decode<HelloMessage>(bytes.data(), bytes.size());
    ASSERT_TRUE(back.has_value());
    EXPECT_EQ(back->environment, m.environment);
    EXPECT_EQ(back->directory, m.directory);
    EXPECT_EQ(back->isa, m.isa);
}

TEST(Protocol, FramesCrossASocketWhole) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    TextMessage m;
    m.text.assign(3u << 20, 'x');  // larger than a socket's buffer: partial sends happen
    std::thread sender(
        [&] { EXPECT_TRUE(send_frame(ends[0], Message::text, encode(m)).has_value()); });
    std::vector<uint8_t> payload;
    auto type = receive_frame(ends[1], payload);
    sender.join();
    ASSERT_TRUE(type.has_value());
    EXPECT_EQ(*type, Message::text);
    EXPECT_EQ(decode<TextMessage>(payload.data(), payload.size())->text, m.text);
    ::close(ends[0]);
    EXPECT_EQ(receive_frame(ends[1], payload).error().code, base::Code::io_error);
    ::close(ends[1]);
}

}  // namespace
}  // namespace whet::runtime::forge
