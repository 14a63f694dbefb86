// SPDX-License-Identifier: Apache-2.0
// The forge's main loop: frames in, work in between, offers and counters out, all within the
// budget.
#include "runtime/forge/server.hpp"

#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/env.hpp"
#include "base/host.hpp"
#include "base/log.hpp"
#include "base/threads.hpp"
#include "policy/policy.hpp"
#include "runtime/forge/protocol.hpp"
#include "runtime/forge/text_request.hpp"
#include "runtime/forge/workshop.hpp"
#include "runtime/usable_options.hpp"

namespace whet::runtime::forge {
namespace {

constexpr int64_t kStatusIntervalNs = 100'000'000;  ///< counters are sent about ten times a second
constexpr int kIdleWaitMs = 200;        ///< with nothing to do: how long to wait for a frame
constexpr double kBurstSeconds = 0.02;  ///< CPU time that may be spent ahead of the share
constexpr size_t kDefaultMemoryBytes = 512u << 20;
constexpr rlim_t kLlvmBytes = rlim_t{1}
                              << 30;  ///< address space of LLVM's code, data and heap, on top

#ifdef __SANITIZE_ADDRESS__
constexpr bool kLimitAddressSpace = false;  ///< its shadow takes terabytes
#else
constexpr bool kLimitAddressSpace = true;
#endif

/// CPU seconds against a share of one core, as a token bucket: what is unused for longer than the
/// burst is lost.
class CpuShare {
public:
    void set(double share) { share_ = share; }
    /// Seconds to wait until work may go on; 0: now.
    double wait_seconds(double used_cpu_seconds, double now_seconds) {
        if (share_ >= 1) {
            last_now_ = now_seconds;
            last_used_ = used_cpu_seconds;
            tokens_ = kBurstSeconds;
            return 0;
        }
        tokens_ = std::min(kBurstSeconds, tokens_ + (now_seconds - last_now_) * share_ -
                                              (used_cpu_seconds - last_used_));
        last_now_ = now_seconds;
        last_used_ = used_cpu_seconds;
        if (tokens_ >= 0) return 0;
        return share_ > 0 ? -tokens_ / share_ : 1;
    }

private:
    double share_ = 1, tokens_ = kBurstSeconds, last_now_ = 0, last_used_ = 0;
};

class Server final : public Outbox {
public:
    Server(int socket, std::unique_ptr<Zygote> zygote)
        : socket_(socket), zygote_(std::move(zygote)) {}

    int run();

    void offer(const OfferMessage& offer) override { send(Message::offer, encode(offer)); }
    void log(base::Level level, const std::string& text) override {
        send(Message::log, encode(LogMessage{static_cast<uint32_t>(level), text}));
    }

private:
    bool start();
    bool receive(int wait_ms);
    bool handle(Message type, const std::vector<uint8_t>& payload);
    void answer(const TextMessage& question);
    void send(Message type, const std::vector<uint8_t>& payload) {
        if (!send_frame(socket_, type, payload)) gone_ = true;
    }
    void send_status();
    double cpu_seconds() const {
        const int64_t own = zygote_started_ ? base::process_cpu_ns() : base::thread_cpu_ns();
        return static_cast<double>(own) * 1e-9 +
               (workshop_ != nullptr ? workshop_->outside_cpu_seconds() : 0);
    }
    bool out_of_budget() const {
        return control_.seconds_left >= 0 &&
               cpu_seconds() - control_cpu_seconds_ >= control_.seconds_left;
    }

    int socket_;
    std::unique_ptr<Zygote> zygote_;
    bool zygote_started_ = false;
    bool gone_ = false;
    std::unique_ptr<Workshop> workshop_;
    ControlMessage control_;
    double control_cpu_seconds_ = 0;  ///< when the last control message came
    CpuShare share_;
    int64_t last_status_ = 0;
};

bool Server::start() {
    std::vector<uint8_t> payload;
    auto type = receive_frame(socket_, payload);
    if (!type || *type != Message::hello) return false;
    if (std::string why = why_refused(payload); !why.empty()) {
        send(Message::refused, encode(TextMessage{0, 1, std::move(why)}));
        return false;
    }
    auto hello = decode<HelloMessage>(payload.data(), payload.size());
    if (!hello) return false;

    // The default of WHET_STORE follows from the home folder, which is the program's (the client
    // hands it on).
    std::vector<std::string> lines = hello->environment;
    for (const char* name : {"HOME", "XDG_CACHE_HOME"}) {
        if (const char* value = std::getenv(name)) lines.push_back(std::string(name) + "=" + value);
    }
    std::vector<const char*> environment;
    for (const std::string& line : lines) environment.push_back(line.c_str());
    environment.push_back(nullptr);
    std::vector<std::string> warnings;  // the program has said all but the policy's
    WorkshopSettings settings;
    std::vector<std::string_view> names;
    for (const policy::PolicyEntry& entry : policy::policies()) names.push_back(entry.name);
    settings.options = base::load_options(environment.data(), warnings, names);
    drop_unusable(settings.options, warnings);
    settings.isa = hello->isa;
    settings.directory = hello->directory;
    settings.own_process = zygote_ != nullptr;

    ExecutorSettings executor;
    executor.isa = hello->isa;
    executor.mxcsr = hello->mxcsr;
    executor.seed = settings.options.seed;
    executor.memory_bytes = static_cast<size_t>(
        settings.options.budget_memory_bytes.value_or(static_cast<int64_t>(kDefaultMemoryBytes)));
    const auto cgroup = base::describe_host().limits.memory_bytes;
    if (!settings.options.budget_memory_bytes && cgroup) {
        executor.memory_bytes = std::min(executor.memory_bytes, static_cast<size_t>(*cgroup / 4));
    }
    settings.options.budget_memory_bytes = static_cast<int64_t>(executor.memory_bytes);
    ReadyMessage ready;
    ready.pid = getpid();
    ready.in_process = zygote_ == nullptr;
    for (const std::string& warning : warnings) {  // only this end knows the policies
        if (warning.starts_with("WHET_POLICY=")) ready.note = warning;
    }
    std::unique_ptr<Store> store;
    if (!settings.options.store_path.empty()) {
        auto opened = Store::open(settings.options.store_path, machine_key(hello->isa));
        if (opened)
            store = std::move(*opened);
        else
            ready.note += (ready.note.empty() ? "" : "; ") +
                          ("tuning without a store: " + opened.error().message);
    }
    zygote_started_ = zygote_ != nullptr;
    if (zygote_started_ && kLimitAddressSpace) {
        const rlim_t most = static_cast<rlim_t>(executor.memory_bytes) + kLlvmBytes;
        const rlimit limit{most, most};
        setrlimit(RLIMIT_AS, &limit);
    }
    auto runner = zygote_ != nullptr ? make_worker_executor(std::move(zygote_), executor)
                                     : make_local_executor(executor, false);
    workshop_ = std::make_unique<Workshop>(settings, std::move(runner), std::move(store), *this);
    send(Message::ready, encode(ready));
    return !gone_;
}

void Server::send_status() {
    StatusMessage status = workshop_->status();
    status.cpu_seconds = cpu_seconds();
    send(Message::status, encode(status));
    last_status_ = base::steady_ns();
}

/// Takes frames while there are any; waits for the first at most `wait_ms`.
bool Server::receive(int wait_ms) {
    for (;;) {
        pollfd polled{socket_, POLLIN, 0};
        const int ready = poll(&polled, 1, wait_ms);
        if (ready < 0 && errno != EINTR) return false;
        if (ready <= 0) return true;
        std::vector<uint8_t> payload;
        auto type = receive_frame(socket_, payload);
        if (!type || !handle(*type, payload)) return false;
        wait_ms = 0;
    }
}

template <typename T, typename Use>
bool with_message(const std::vector<uint8_t>& payload, Use&& use) {
    auto message = decode<T>(payload.data(), payload.size());
    if (!message) return false;
    use(*message);
    return true;
}

bool Server::handle(Message type, const std::vector<uint8_t>& payload) {
    switch (type) {
        case Message::site:
            return with_message<SiteMessage>(payload,
                                             [&](const SiteMessage& m) { workshop_->add_site(m); });
        case Message::profile:
            return with_message<ProfileMessage>(
                payload, [&](const ProfileMessage& m) { workshop_->set_profile(m); });
        case Message::verdict:
            return with_message<VerdictMessage>(
                payload, [&](const VerdictMessage& m) { workshop_->take_verdict(m); });
        case Message::control:
            return with_message<ControlMessage>(payload, [&](const ControlMessage& m) {
                control_ = m;
                control_cpu_seconds_ = cpu_seconds();
                share_.set(m.cpu_share);
                workshop_->set_trials_left(m.trials_left);
            });
        case Message::plant:
            return with_message<PlantMessage>(payload, [&](const PlantMessage& m) {
                workshop_->plant(m);
                send_status();
            });
        case Message::text:
            return with_message<TextMessage>(payload, [&](const TextMessage& m) { answer(m); });
        default: return false;
    }
}

void Server::answer(const TextMessage& question) {
    const auto write = [&](const std::string& text, bool last) {
        TextMessage reply;
        reply.id = question.id;
        reply.last = last;
        reply.text = text;
        send(Message::reply, encode(reply));
        return !gone_;
    };
    answer_text(*workshop_, question.text, write);
}

int Server::run() {
    base::block_all_signals();
    base::lower_priority();
    base::name_thread("whet-forge");
    if (!start()) return 1;
    bool idle = false;
    while (!gone_) {
        int wait_ms = 0;
        const bool stopped = control_.paused != 0 || control_.cpu_share <= 0 || out_of_budget();
        if (stopped || idle) {
            wait_ms = kIdleWaitMs;
        } else {
            const double wait =
                share_.wait_seconds(cpu_seconds(), static_cast<double>(base::steady_ns()) * 1e-9);
            if (wait > 0)
                wait_ms = std::clamp(static_cast<int>(std::ceil(wait * 1e3)), 1, kIdleWaitMs);
        }
        if (!receive(wait_ms)) break;
        if (base::steady_ns() - last_status_ >= kStatusIntervalNs) send_status();
        if (gone_ || control_.paused != 0 || control_.cpu_share <= 0 || out_of_budget()) continue;
        if (wait_ms > 0 && !idle) continue;
        const bool was_idle = idle;
        idle = !workshop_->step();
        if (workshop_->lost()) break;  // the program starts another forge
        if (idle && !was_idle) send_status();
    }
    return 0;
}

}  // namespace

int serve(int socket, std::unique_ptr<Zygote> zygote) {
    return Server(socket, std::move(zygote)).run();
}

}  // namespace whet::runtime::forge
