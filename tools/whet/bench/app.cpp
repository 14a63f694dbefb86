// SPDX-License-Identifier: Apache-2.0
// `whet bench app`: the latency of one program in three states of Whet, in turn.
//
// One process serves all blocks, so nothing but the state differs: `original` (every call goes to
// the original), `paused` (Whet serves, nothing is tuned), `tuning`. A round is one block of each
// state; the order changes from round to round through all six, so that what drifts (clock, other
// tenants) falls on all states alike.
#include <pthread.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "tools/whet/bench/latency.hpp"
#include "tools/whet/bench/line_program.hpp"
#include "tools/whet/bench/live_site.hpp"
#include "tools/whet/bench/machine.hpp"
#include "tools/whet/bench/options.hpp"
#include "tools/whet/bench/result.hpp"
#include "tools/whet/run/control_host.hpp"
#include "tools/whet/run/run.hpp"

namespace whet::bench {
namespace {

constexpr double kStartSeconds = 300;   // until the first answer: programs import frameworks
constexpr double kAnswerSeconds = 60;   // until any other one
constexpr double kCommandSeconds = 10;  // until the program has carried out a command
constexpr int kWarmRequests =
    50;  // before the first block, and at most until the program is seen on the page
constexpr int kMostWarmRequests = 2000;

std::vector<std::string> read_lines(const std::string& path) {
    std::vector<std::string> lines;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);)
        if (!line.empty()) lines.push_back(line);
    return lines;
}

/// Keeps every core but one busy as long as it lives.
class BusyCores {
public:
    explicit BusyCores(bool busy) {
        cpu_set_t mine;
        if (!busy || sched_getaffinity(0, sizeof mine, &mine) != 0) return;
        bool first = true;
        for (int core = 0; core < CPU_SETSIZE; ++core) {
            if (!CPU_ISSET(core, &mine)) continue;
            if (!first) threads_.emplace_back([this] { spin(); });
            if (!first) {
                cpu_set_t one;
                CPU_ZERO(&one);
                CPU_SET(core, &one);
                pthread_setaffinity_np(threads_.back().native_handle(), sizeof one, &one);
            }
            first = false;
        }
    }
    ~BusyCores() {
        stop_ = true;
        for (std::thread& thread : threads_) thread.join();
    }
    BusyCores(const BusyCores&) = delete;
    BusyCores& operator=(const BusyCores&) = delete;

private:
    void spin() const {
        while (!stop_.load(std::memory_order_relaxed)) {
        }
    }
    std::atomic<bool> stop_{false};
    std::vector<std::thread> threads_;
};

bool command(tools::ControlHost& host, whet_control_command one) {
    return host.wait_acknowledged(host.command_all(one), kCommandSeconds);
}

bool enter(tools::ControlHost& host, State state) {
    switch (state) {
        case State::original:
            return command(host, WHET_CONTROL_PAUSE) && command(host, WHET_CONTROL_DISABLE);
        case State::paused:
            return command(host, WHET_CONTROL_PAUSE) && command(host, WHET_CONTROL_ENABLE);
        case State::tuning:
            // Where the search is settled it goes on, so that every such block is one of tuning.
            return command(host, WHET_CONTROL_ENABLE) && command(host, WHET_CONTROL_RESUME) &&
                   command(host, WHET_CONTROL_CONTINUE);
    }
    return false;
}

struct Counts {
    int64_t calls = 0, trials = 0, published = 0;
};
Counts counts_of(const tools::ControlHost& host) {
    Counts counts;
    for (const tools::ProcessView& view : host.read(false)) {
        counts.calls += static_cast<int64_t>(view.calls);
        counts.trials += static_cast<int64_t>(view.trials);
        counts.published += static_cast<int64_t>(view.published);
    }
    return counts;
}

/// The session: the program, its page, the lines.
struct Session {
    tools::ControlHost host;
    LineProgram program;
    std::vector<std::string> lines;
    int64_t requests = 0;
    int64_t ask(size_t index, double seconds) {
        ++requests;
        return program.ask(lines[index % lines.size()], seconds);
    }
};

std::string start(Session& session, const Options& options) {
    session.lines = read_lines(options.input);
    if (session.lines.empty()) return options.input + " holds no line";
    std::string failure = session.host.create();
    if (!failure.empty()) return "control page: " + failure;
    const auto changes = tools::preload_changes(session.host, failure);
    if (!failure.empty()) return failure;
    failure = session.program.start(options.command, tools::child_environment(changes));
    if (!failure.empty()) return failure;
    show_progress("waiting for the program's first answer");
    if (session.ask(0, kStartSeconds) < 0) return "the program gave no answer to its first line";
    for (int i = 1; i < kMostWarmRequests; ++i) {
        if (i >= kWarmRequests && counts_of(session.host).calls > 0) break;
        if (session.ask(static_cast<size_t>(i), kAnswerSeconds) < 0)
            return "the program stopped answering";
    }
    if (session.host.read(false).empty()) return "the program made no call that Whet knows";
    return {};
}

std::string run_block(Session& session, const Options& options, State state, Block& block) {
    if (!enter(session.host, state))
        return "the program did not carry out a command of the control page";
    const Counts before = counts_of(session.host);
    block.state = state;
    for (int i = 0; i < options.requests; ++i) {
        const int64_t latency = session.ask(static_cast<size_t>(i), kAnswerSeconds);
        if (latency < 0) return stop_requested() ? "stopped" : "the program stopped answering";
        block.latency_us.push_back(static_cast<double>(latency) * 1e-3);
    }
    block.trials = counts_of(session.host).trials - before.trials;
    return {};
}

}  // namespace

int bench_app(const Options& options) {
    Session session;
    const BusyCores busy(options.busy);
    std::string failure = start(session, options);
    std::vector<Block> blocks;
    for (int i = 0; i < options.blocks && failure.empty(); ++i) {
        const State state = state_of_block(i);
        show_progress("block " + std::to_string(i + 1) + "/" + std::to_string(options.blocks) +
                      ": " + name_of(state) + ", " +
                      std::to_string(counts_of(session.host).trials) + " trials so far");
        blocks.emplace_back();
        failure = run_block(session, options, state, blocks.back());
    }
    const Counts counts = counts_of(session.host);
    session.program.finish(kCommandSeconds);
    show_progress("");
    if (!failure.empty()) {
        complain(failure);
        return kFailed;
    }
    nlohmann::json document = summarize(blocks);
    document["trials"] = counts.trials;
    document["published"] = counts.published;
    document["requests"] = session.requests;
    document["settings"] = {{"blocks", options.blocks},
                            {"requests_per_block", options.requests},
                            {"busy", options.busy},
                            {"command", options.command},
                            {"input", options.input}};
    std::fputs(text_of(document).c_str(), stdout);
    if (write_json(options.json, document)) return kDone;
    complain("cannot write " + options.json);
    return kFailed;
}

}  // namespace whet::bench
