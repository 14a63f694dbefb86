// SPDX-License-Identifier: Apache-2.0
// Tests of the forge's loop over a socket: hello, offers, status, budgets, text, and its end with
// the socket.
#include "runtime/forge/server.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/clock.hpp"
#include "runtime/forge/protocol.hpp"
#include "tests/forge/ops.hpp"

namespace whet::runtime::forge {
namespace {

/// The program's end of a forge that runs as a thread (portable level) or as the installed helper.
class Peer {
public:
    explicit Peer(bool process) {
        int ends[2];
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        ours_ = ends[0];
        if (!process) {
            thread_ = std::thread([end = ends[1]] {
                serve(end, nullptr);
                close(end);
            });
            return;
        }
        pid_ = fork();
        if (pid_ == 0) {
            dup2(ends[1], 3);
            for (int fd = 4; fd < 64; ++fd) close(fd);
            execl(WHET_FORGE_DIRECTORY "/whet-forge", "whet-forge", static_cast<char*>(nullptr));
            _exit(127);
        }
        close(ends[1]);
    }
    ~Peer() { finish(); }

    void finish() {
        if (ours_ < 0) return;
        close(ours_);
        ours_ = -1;
        if (thread_.joinable()) thread_.join();
        if (pid_ > 0) waitpid(pid_, &exit_status, 0);
    }

    template <typename T>
    void send(Message type, const T& message) {
        ASSERT_TRUE(send_frame(ours_, type, encode(message)));
    }

    /// Reads frames until `stop` says so; false after a minute or at the end.
    bool read_until(const std::function<bool(Message, const std::vector<uint8_t>&)>& stop) {
        const int64_t until = base::steady_ns() + 60'000'000'000;
        while (base::steady_ns() < until) {
            pollfd polled{ours_, POLLIN, 0};
            if (poll(&polled, 1, 1000) <= 0) continue;
            std::vector<uint8_t> payload;
            const auto type = receive_frame(ours_, payload);
            if (!type) return false;
            if (stop(*type, payload)) return true;
        }
        return false;
    }

    void hello(std::vector<std::string> environment, jit::Isa isa = jit::Isa::portable) {
        HelloMessage message;
        message.pid = getpid();
        message.isa = isa;
        message.directory = WHET_FORGE_DIRECTORY;
        environment.push_back("WHET_STORE=none");
        message.environment = std::move(environment);
        send(Message::hello, message);
    }
    void expect_refusal(const HelloMessage& message, const std::string& text) {
        send(Message::hello, message);
        EXPECT_TRUE(read_until([&](Message type, const std::vector<uint8_t>& payload) {
            const auto said = decode<TextMessage>(payload.data(), payload.size());
            return type == Message::refused && said && said->text.find(text) != std::string::npos;
        }));
        EXPECT_FALSE(read_until([](Message, const std::vector<uint8_t>&) { return true; }));
    }
    void site(const whet_op& op) {
        SiteMessage message;
        message.site = 11;
        message.family = 12;
        message.op = op;
        send(Message::site, message);
    }

    int exit_status = -1;

private:
    int ours_ = -1;
    pid_t pid_ = 0;
    std::thread thread_;
};

class Server : public testing::TestWithParam<bool> {};

TEST_P(Server, GreetsOffersAndCounts) {
    Peer peer(GetParam());
    peer.hello({"WHET_SEED=1"});
    ASSERT_TRUE(peer.read_until([&](Message type, const std::vector<uint8_t>& payload) {
        if (type != Message::ready) return false;
        const auto ready = decode<ReadyMessage>(payload.data(), payload.size());
        EXPECT_TRUE(ready);
        EXPECT_EQ(ready->in_process != 0, !GetParam());
        EXPECT_EQ(ready->note, "");
        return true;
    }));
    peer.site(matmul_op(8, 16, 24));
    ASSERT_TRUE(peer.read_until(
        [](Message type, const std::vector<uint8_t>&) { return type == Message::offer; }));
    ASSERT_TRUE(peer.read_until([](Message type, const std::vector<uint8_t>& payload) {
        if (type != Message::status) return false;
        const auto status = decode<StatusMessage>(payload.data(), payload.size());
        return status && status->trials > 0 && status->cpu_seconds > 0;
    }));
    peer.finish();
    EXPECT_EQ(peer.exit_status, GetParam() ? 0 : -1);
}

TEST_P(Server, SpendsNoTrialsWhenPausedOrOutOfThem) {
    Peer peer(GetParam());
    peer.hello({});
    ControlMessage control;
    control.trials_left = 0;
    peer.send(Message::control, control);
    peer.site(matmul_op(8, 16, 24));
    bool offered = false;
    int statuses = 0;
    ASSERT_TRUE(peer.read_until([&](Message type, const std::vector<uint8_t>& payload) {
        offered = offered || type == Message::offer;
        if (type != Message::status) return false;
        const auto status = decode<StatusMessage>(payload.data(), payload.size());
        EXPECT_EQ(status->trials, 0u);
        return offered && ++statuses > 2;
    }));
    EXPECT_TRUE(offered);  // a first plan takes no trial
}

TEST_P(Server, AnswersText) {
    Peer peer(GetParam());
    peer.hello({});
    for (const auto& [question, expected] : std::vector<std::pair<std::string, std::string>>{
             {"inspect matmul", "error: "},
             {"inspect linear m=2 k=8 n=8", "sketches"},
             {"tune linear m=2 k=8 n=8 0.2", "schedule"},
             {"report", "\"sites\": ["},
             {"explain linear m=2 k=8 n=8", "no plan in the store"},
             {"sing", "error: got request 'sing'"}}) {
        TextMessage message;
        message.id = 5;
        message.text = question;
        peer.send(Message::text, message);
        std::string answer;
        ASSERT_TRUE(peer.read_until([&](Message type, const std::vector<uint8_t>& payload) {
            if (type != Message::reply) return false;
            const auto reply = decode<TextMessage>(payload.data(), payload.size());
            EXPECT_EQ(reply->id, 5u);
            answer += reply->text;
            return reply->last != 0;
        })) << question;
        EXPECT_NE(answer.find(expected), std::string::npos) << question << " gave " << answer;
    }
}

TEST_P(Server, EndsOnAnotherProtocolAndOnNonsense) {
    {
        Peer peer(GetParam());
        HelloMessage message;
        message.version = 999;
        peer.expect_refusal(message, "got a program of protocol 999");
    }
    {
        Peer peer(GetParam());
        HelloMessage message;
        message.build_id = 0xabc;
        peer.expect_refusal(message, "build 0000000000000abc");
    }
    Peer peer(GetParam());
    peer.hello({});
    ASSERT_TRUE(peer.read_until(
        [](Message type, const std::vector<uint8_t>&) { return type == Message::ready; }));
    TextMessage nonsense;
    peer.send(Message::site, nonsense);
    EXPECT_FALSE(peer.read_until([](Message, const std::vector<uint8_t>&) { return false; }));
}

INSTANTIATE_TEST_SUITE_P(Hosts, Server, testing::Values(false, true), [](const auto& info) {
    return std::string(info.param ? "process" : "thread");
});

}  // namespace
}  // namespace whet::runtime::forge
