// SPDX-License-Identifier: Apache-2.0
// The tuner's thread: its life, its loop, its messages.
#include "runtime/tuner/tuner.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "jit/sketch/space.hpp"
#include "runtime/dispatch/operation.hpp"
#include "runtime/forge/orphans.hpp"
#include "runtime/runtime.hpp"

namespace whet::runtime {
namespace {

using base::Code;
using base::make_error;
using forge::Message;

constexpr int64_t kQuarterNs = 250'000'000;
constexpr int64_t kLimitsNs = 2'000'000'000;  // between two looks at what the system allows
constexpr int kBusyWaitMs = 5;   // between two looks at the samples while there is work
constexpr int kIdleWaitMs = 25;  // otherwise
constexpr int64_t kFirstBackOffNs = 500'000'000;
constexpr int kMostRestarts = 8;  // of a forge; then the program goes on with what it has
constexpr int kLastReportWaitMs =
    500;  // under `whet run`, for the table: the thread that holds the lock may be starved
constexpr const char* kNoExecutableMemory = "no executable memory: untuned";
constexpr int kSendTimeoutSeconds = 2;  // a forge that reads nothing for so long is given up

/// Trial operands are given back after each timing; large products need large ones.
size_t trial_bytes_of(const base::HostLimits& limits) {
    constexpr int64_t kLeast = 96 << 20, kShare = 16;  // of the memory that this process may have
    const int64_t physical = ::sysconf(_SC_PHYS_PAGES) * ::sysconf(_SC_PAGESIZE);
    const int64_t memory = std::min(limits.memory_bytes.value_or(physical), physical);
    return static_cast<size_t>(
        within_quarter(std::max(kLeast, memory / kShare), limits.memory_bytes));
}

/// What the forge reads its options from; paths as this process understood them.
std::vector<std::string> whet_environment(const base::Options& options) {
    std::vector<std::string> lines;
    for (char** line = environ; line && *line; ++line) {
        const std::string_view text = *line;
        const bool other = text.starts_with("WHET_CONTROL=") || text.starts_with("WHET_STORE=") ||
                           text.starts_with("WHET_DUMP=");
        if (text.starts_with("WHET_") && !other) lines.emplace_back(text);
    }
    lines.push_back("WHET_STORE=" + (options.store_path.empty() ? "none" : options.store_path));
    lines.push_back("WHET_DUMP=" + options.dump_directory);
    return lines;
}

}  // namespace

double Times::median_ns() const {
    const auto count = static_cast<size_t>(std::min(count_, kKept));
    if (count == 0) return 0;
    std::array<float, kKept> sorted = recent_;
    std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(count / 2),
                     sorted.begin() + static_cast<std::ptrdiff_t>(count));
    return sorted[count / 2];
}

Centre Times::log_centre() const {
    std::vector<double> logs;
    for (size_t i = 0; i < std::min(count_, kKept); ++i)
        logs.push_back(std::log(std::max(1.0, static_cast<double>(recent_[i]))));
    return centre_of(std::move(logs));
}

namespace {

/// The gain of live calls: medians of both sides, each with its own error.
void fill_gain(ReportRow& row, const SiteState& state) {
    constexpr uint64_t kLeastSamples = 7;  // fewer give no spread worth drawing
    if (!state.current || state.original.count() < kLeastSamples ||
        state.serving.count() < kLeastSamples)
        return;
    const Centre before = state.original.log_centre(), now = state.serving.log_centre();
    const double half = std::hypot(before.high - before.median, now.high - now.median);
    row.gain = row.before_us / row.now_us;
    row.gain_low = row.gain * std::exp(-half);
    row.gain_high = row.gain * std::exp(half);
}

}  // namespace

void Tuner::start() noexcept {
    if (started_.exchange(true)) return;
    if (!runtime_.may_tune) return;
    mxcsr_ = _mm_getcsr() & ~0x3fu;  // without the sticky flags
    // Never joined: a thread that is stuck must not hold up the program's end.
    static base::BackgroundThread* thread = nullptr;
    thread = new base::BackgroundThread;
    if (auto started = thread->start("whet-tuner", [this] { run(); }); !started) {
        Lock lock(mutex_);
        give_up(started.error().message + ": untuned");
    }
}

void Tuner::run() {
    if (!runtime_.options.control_path.empty()) {
        auto page = ControlPage::open(runtime_.options.control_path);
        Lock lock(mutex_);
        if (page) {
            page_ = std::move(*page);
        } else if (page.error().code != Code::out_of_budget) {  // more processes than slots
            say("WHET_CONTROL is ignored: " + page.error().message);
        }
    }
    {
        Lock lock(mutex_);
        read_limits(base::steady_ns());
    }
    for (;;) {
        int wait = kIdleWaitMs;
        int socket = -1;
        {
            Lock lock(mutex_);
            run_once(lock);
            background_cpu_seconds_ = static_cast<double>(base::thread_cpu_ns()) * 1e-9;
            if (!offers_.empty() || !wanted_packs_.empty() || (forge_ && !status_is_fresh_))
                wait = kBusyWaitMs;
            if (forge_) socket = forge_->socket();
            if (forge_ && forge_->has_kept()) wait = 0;
        }
        changed_.notify_all();
        pollfd waiting{socket, POLLIN, 0};
        ::poll(&waiting, socket >= 0 ? 1 : 0, wait);
    }
}

void Tuner::run_once(Lock& lock) {
    const int64_t now = base::steady_ns();
    obey_control_page();
    const bool observing = runtime_.options.tune == base::Tune::observe;
    if (!forge_ && !gave_up_ && !observing && now >= connect_at_ns_) connect(now);
    handle_frames(lock);
    adopt_new_sites();
    drain_samples(lock);
    pack_wanted(lock);
    if (may_work(now)) {
        handle_offers(lock);
        check_trials(base::steady_ns());
    } else if (runtime_.pinned || runtime_.paused) {
        for (auto& state : sites_) {
            if (state.trial) end_trial(state, TrialVerdict::undecided);
        }
    }
    if (now >= next_quarter_ns_) {
        next_quarter_ns_ = now + kQuarterNs;
        every_quarter_second(now);
        if (may_work(now)) {
            time_waiting_candidates(lock);
            watch_crossed(lock);
            look_back(lock);
        }
    }
}

bool Tuner::may_work(int64_t now) const {
    return !runtime_.pinned && !runtime_.paused && runtime_.enabled &&
           now >= offers_not_before_ns_ && spent_seconds() < runtime_.options.budget_seconds;
}

void Tuner::connect(int64_t now) {
    if (runtime_.isa != jit::Isa::portable && !runtime_.code.available())
        return give_up(kNoExecutableMemory);
    forge::HelloMessage hello;
    hello.pid = ::getpid();
    hello.isa = runtime_.isa;
    hello.mxcsr = mxcsr_;
    hello.directory = helper_directory();
    hello.environment = whet_environment(runtime_.options);
    std::vector<std::string> notes;
    auto client = forge::Client::start(runtime_.options.forge, hello, notes);
    for (const auto& note : notes) say(note);
    if (!client) return give_up("no forge (" + client.error().message + "): untuned");
    forge_ = std::move(*client);
    socket_ = forge_->socket();
    const timeval timeout{kSendTimeoutSeconds, 0};
    ::setsockopt(forge_->socket(), SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    next_quarter_ns_ = now;
    for (auto& site : sites_) site.announced = false;
}

/// No forge from now on; what serves goes on serving.
void Tuner::give_up(const std::string& line) {
    gave_up_ = true;
    socket_ = -1;
    forge_.reset();
    offers_.clear();
    for (auto& [id, answered] : answered_) answered = true;
    say(line);
}

/// A forge that refused this program has ended, maybe before its word was read.
bool Tuner::was_refused() {
    Message type{};
    std::vector<uint8_t> payload;
    for (;;) {
        const auto got = forge_->receive(0, type, payload);
        if (!got || !*got) return false;
        if (type != Message::refused) continue;
        handle(type, payload);
        return true;
    }
}

void Tuner::lose_forge(const base::Error& error, int64_t now) {
    if (forge_ && was_refused()) return;
    socket_ = -1;
    forge_.reset();
    base::log_event(base::Level::info, "tuner", "the forge ended",
                    {{"why", error.message}, {"restarts", restarts_}});
    // What the next one counts comes on top of what this one counted.
    status_before_restarts_.trials += status_.trials;
    status_before_restarts_.compiles += status_.compiles;
    status_before_restarts_.trials_without_compile += status_.trials_without_compile;
    status_before_restarts_.rejected_static += status_.rejected_static;
    status_before_restarts_.rejected_wrong += status_.rejected_wrong;
    status_before_restarts_.rejected_crashed += status_.rejected_crashed;
    status_before_restarts_.rejected_slow += status_.rejected_slow;
    status_before_restarts_.cpu_seconds += status_.cpu_seconds;
    status_ = {};
    status_is_fresh_ = false;
    for (auto& [id, answered] : answered_) answered = true;
    if (++restarts_ > kMostRestarts) {
        gave_up_ = true;
        say("the forge ended " + std::to_string(restarts_) +
            " times: no more tuning in this process");
        return;
    }
    connect_at_ns_ = now + (kFirstBackOffNs << std::min(restarts_ - 1, 6));
}

void Tuner::handle_frames(Lock&) {
    Message type{};
    std::vector<uint8_t> payload;
    for (int frames = 0; forge_ && frames < 256; ++frames) {
        auto got = forge_->receive(0, type, payload);
        if (!got) {
            lose_forge(got.error(), base::steady_ns());
            return;
        }
        if (!*got) return;
        handle(type, payload);
    }
}

void Tuner::handle(Message type, const std::vector<uint8_t>& payload) {
    const auto malformed = [&](const base::Error& error) { lose_forge(error, base::steady_ns()); };
    switch (type) {
        case Message::ready: {
            auto ready = forge::decode<forge::ReadyMessage>(payload.data(), payload.size());
            if (!ready) return malformed(ready.error());
            if (!ready->note.empty()) say(ready->note);
            return;
        }
        case Message::offer: {
            auto offer = forge::decode<forge::OfferMessage>(payload.data(), payload.size());
            if (!offer) return malformed(offer.error());
            offers_.push_back(std::move(*offer));
            return;
        }
        case Message::status: {
            auto status = forge::decode<forge::StatusMessage>(payload.data(), payload.size());
            if (!status) return malformed(status.error());
            status_ = std::move(*status);
            uint32_t announced = 0;
            for (const auto& site : sites_) announced += site.announced;
            status_is_fresh_ = status_.sites_open + status_.sites_settled >= announced;
            return;
        }
        case Message::refused: {
            const auto text = forge::decode<forge::TextMessage>(payload.data(), payload.size());
            return give_up("no forge (" + helper_directory() + ": " +
                           (text ? text->text : text.error().message) + "): untuned");
        }
        case Message::reply: {
            auto reply = forge::decode<forge::TextMessage>(payload.data(), payload.size());
            if (!reply) return malformed(reply.error());
            if (!answered_.contains(reply->id)) return;  // nobody waits
            answers_[reply->id] += reply->text;
            if (reply->last) answered_[reply->id] = true;
            return;
        }
        case Message::log: {
            auto line = forge::decode<forge::LogMessage>(payload.data(), payload.size());
            if (!line) return malformed(line.error());
            const auto level = static_cast<base::Level>(std::min(line->level, 4u));
            if (level <= base::Level::warning) return say(line->text, "forge", level);
            base::log_event(level, "forge", line->text, {});
            return;
        }
        default: return;
    }
}

/// Once, whoever says it: a forge that was started anew meets what its forerunner met.
void Tuner::say(const std::string& line, const char* topic, base::Level level) {
    if (std::find(said_.begin(), said_.end(), line) != said_.end()) return;
    said_.push_back(line);
    base::log_event(forked_ ? base::Level::info : level, topic, line, {});
}

void Tuner::obey_control_page() {
    if (!page_ || !page_->owned()) return;
    const whet_control_command command = page_->poll();
    switch (command) {
        case WHET_CONTROL_NONE: return;
        case WHET_CONTROL_ENABLE: runtime_.enabled = true; break;
        case WHET_CONTROL_DISABLE: runtime_.enabled = false; break;
        case WHET_CONTROL_PAUSE: runtime_.paused = true; break;
        case WHET_CONTROL_RESUME: runtime_.paused = false; break;
        case WHET_CONTROL_PIN: runtime_.pinned = true; break;
        case WHET_CONTROL_CONTINUE:
            if (forge_) send(Message::text, forge::TextMessage{.text = "continue"});
            break;
        case WHET_CONTROL_DRAIN:
        case WHET_CONTROL_REPORT: break;
    }
    runtime_.apply_switches();
    next_quarter_ns_ = 0;  // the forge hears of it, and the parent sees counters of after it
    if (command == WHET_CONTROL_PAUSE || command == WHET_CONTROL_DISABLE ||
        command == WHET_CONTROL_PIN) {
        for (auto& state : sites_) {
            if (state.trial) end_trial(state, TrialVerdict::undecided);
        }
    }
    every_quarter_second(base::steady_ns());
    page_->acknowledge();
}

/// Quotas, cpusets and memory limits change while a program runs.
void Tuner::read_limits(int64_t now) {
    if (now < next_limits_ns_) return;
    next_limits_ns_ = now + kLimitsNs;
    const base::HostLimits limits = cgroup_.limits();
    if (budget_)
        budget_->set_limits(limits);
    else
        budget_.emplace(runtime_.options, limits);
    most_trial_bytes_ = trial_bytes_of(limits);
    runtime_.frozen.set_most_bytes(limits.memory_bytes ? *limits.memory_bytes / 4 : -1);
}

void Tuner::every_quarter_second(int64_t now) {
    forge::note_reaping();
    read_limits(now);
    budget_->observe_strain(cgroup_.strain(), static_cast<double>(now) * 1e-9);
    sum_counters(now);
    for (auto& state : sites_) {
        // A caller took a wrong record out, and its sample was lost in a full ring.
        if (state.current && !state.site->record.load(std::memory_order_acquire)) {
            refuse(state, *state.current, forge::VerdictKind::wrong,
                   "a live check found a wrong answer");
        }
    }
    watch_latency(static_cast<double>(now) * 1e-9);
    evict_cold_sites();
    if (forge_) send_profile();
    if (forge_ && budget_) {
        const bool paused = runtime_.paused || runtime_.pinned || !runtime_.enabled ||
                            runtime_.options.tune == base::Tune::observe;
        auto control = budget_->control(read_machine_times(), spent_seconds(),
                                        status_before_restarts_.trials + status_.trials, paused);
        share_ = control.cpu_share;
        if (runtime_.options.pin) control.trials_left = 0;  // the warm start only
        send(Message::control, control);
    }
    answer_watchers(now);
}

void Tuner::send_profile() {
    forge::ProfileMessage profile;
    for (const auto& state : sites_) {
        if (!state.announced || state.calls == 0) continue;
        const double ns = state.current ? state.serving.median_ns() : state.original.median_ns();
        profile.entries.push_back({state.site->id, state.calls,
                                   ns * static_cast<double>(state.calls), state.calls_per_s});
    }
    send(Message::profile, profile);
}

void Tuner::answer_watchers(int64_t) {
    if (!page_ || !page_->owned()) return;
    const Report full = make_report();
    ControlCounters counters;
    counters.sites = full.rows.size();
    counters.calls = full.calls();
    counters.served_calls = full.served_calls();
    counters.trials = full.trials;
    counters.compiles = full.compiles;
    counters.published = full.published;
    counters.rejected = full.rejected();
    counters.tuning_cpu_ns =
        static_cast<uint64_t>((full.forge_cpu_seconds + full.program_cpu_seconds) * 1e9);
    counters.saved_ns = static_cast<uint64_t>(std::max(0.0, full.saved_seconds()) * 1e9);
    page_->publish(counters, full.doing);
    if (auto text = print_report(full, "json")) page_->publish_report(*text);
}

/// The forge's, or from the machine's figures where it has not said one; 0: not known yet.
double Tuner::bound_ns_of(const SiteState& state) const {
    if (state.bound_ns > 0 || status_.peak_gflops <= 0 || status_.stream_gbs <= 0)
        return state.bound_ns;
    return jit::bound_ns(state.site->op, status_.peak_gflops, status_.stream_gbs);
}

Report Tuner::make_report() {
    adopt_new_sites();
    sum_counters(0);
    Report report;
    const auto& before = status_before_restarts_;
    report.trials = before.trials + status_.trials;
    report.compiles = before.compiles + status_.compiles;
    report.trials_without_compile = before.trials_without_compile + status_.trials_without_compile;
    report.rejected_static = before.rejected_static + status_.rejected_static;
    report.rejected_wrong = before.rejected_wrong + status_.rejected_wrong + refused_wrong_;
    report.rejected_crashed = before.rejected_crashed + status_.rejected_crashed;
    report.rejected_slow = before.rejected_slow + status_.rejected_slow;
    report.forge_cpu_seconds = before.cpu_seconds + status_.cpu_seconds;
    report.program_cpu_seconds = background_cpu_seconds_;
    report.published = published_;
    report.rolled_back = rolled_back_;
    report.declined = declined_;
    report.build_ms_p50 = status_.build_ms_p50;
    report.build_ms_p95 = status_.build_ms_p95;
    report.peak_gflops = status_.peak_gflops;
    report.stream_gbs = status_.stream_gbs;
    report.code_bytes = runtime_.code.used_bytes();
    report.packed_bytes = runtime_.frozen.packed_bytes();
    report.frozen_bytes = runtime_.frozen.frozen_bytes();
    report.forge_restarts = restarts_;
    report.sites_open = status_.sites_open;
    report.bypassed_unsupported = runtime_.bypassed[WHET_BYPASS_UNSUPPORTED];
    report.bypassed_threads = runtime_.bypassed[WHET_BYPASS_THREADS];
    report.bypassed_full = runtime_.bypassed[WHET_BYPASS_FULL];
    report.forge = !runtime_.may_tune     ? runtime_.untuned_reason
                   : !forge_              ? "none"
                   : forge_->in_process() ? "thread"
                                          : "process";
    report.doing = status_.doing;
    report.version = whet_version();
    report.isa = jit::isa_name(runtime_.isa);
    static constexpr const char* kNumerics[] = {"consistent", "invariant", "relaxed", "strict"};
    report.numerics = kNumerics[static_cast<int>(runtime_.options.numerics)];
    for (const auto& state : sites_) {
        if (state.ahead && state.calls == 0) continue;
        ReportRow row;
        row.id = state.site->id;
        row.op = operation_text(state.site->op);
        row.calls = state.calls;
        row.served_by_whet = state.current != nullptr;
        row.served_calls =
            state.current ? state.calls - std::min(state.calls, state.calls_at_publish) : 0;
        const double live = state.original.median_ns();
        row.before_us = (live > 0 ? live : state.background_original_ns) * 1e-3;
        row.now_us = (state.current ? state.serving.median_ns() : live) * 1e-3;
        row.bound_us = bound_ns_of(state) * 1e-3;
        if (state.current) row.schedule = state.current->schedule;
        row.reason = state.reason;
        fill_gain(row, state);
        report.rows.push_back(std::move(row));
    }
    const auto cost = [](const ReportRow& row) {
        return static_cast<double>(row.calls) * std::max(row.before_us, row.now_us);
    };
    std::stable_sort(report.rows.begin(), report.rows.end(),
                     [&](const auto& a, const auto& b) { return cost(a) > cost(b); });
    return report;
}

Report Tuner::report() {
    Lock lock(mutex_);
    return make_report();
}

bool Tuner::settled() const {
    if (!runtime_.may_tune || gave_up_ || runtime_.pinned ||
        runtime_.options.tune == base::Tune::observe)
        return true;
    if (!started_) return runtime_.sites.size() == 0;
    if (!forge_ || !offers_.empty() || !wanted_packs_.empty() ||
        runtime_.sites.size() != sites_.size())
        return false;
    for (const auto& state : sites_) {
        if (state.trial || (!state.announced && !state.site->degenerate)) return false;
    }
    const bool searches =
        runtime_.options.tune == base::Tune::on &&
        !(budget_ &&
          budget_->used_up(spent_seconds(), status_before_restarts_.trials + status_.trials));
    return status_is_fresh_ && (!searches || status_.sites_open == 0);
}

base::Result<void> Tuner::drain(double seconds) {
    const int64_t end =
        base::steady_ns() + static_cast<int64_t>(std::clamp(seconds, 0.0, 1e9) * 1e9);
    Lock lock(mutex_);
    while (!settled()) {
        const int64_t left = end - base::steady_ns();
        if (left <= 0) {
            return make_error(Code::out_of_budget, "%u of %zu sites are not settled",
                              status_.sites_open, sites_.size());
        }
        changed_.wait_for(lock, std::chrono::nanoseconds(std::min<int64_t>(left, 50'000'000)));
    }
    return {};
}

base::Result<void> Tuner::text_call(const std::string& request, whet_write write, void* user) {
    if (!runtime_.may_tune)
        return make_error(Code::unsupported, "nothing is tuned: %s",
                          runtime_.untuned_reason.c_str());
    start();
    Lock lock(mutex_);
    while (!forge_ && !gave_up_) changed_.wait_for(lock, std::chrono::milliseconds(50));
    if (!forge_) return make_error(Code::unsupported, "no forge can be started");
    forge::TextMessage message;
    const uint64_t id = message.id = next_text_id_++;
    message.text = request;
    answered_[id] = false;
    send(Message::text, message);
    bool wrote = false;
    for (bool last = false; !last;) {
        if (!answered_[id] && answers_[id].empty())
            changed_.wait_for(lock, std::chrono::milliseconds(50));
        last = answered_[id];
        const std::string part = std::exchange(answers_[id], {});
        if (part.empty()) continue;
        wrote = true;
        lock.unlock();  // the caller's function may take its time
        write(part.data(), part.size(), user);
        lock.lock();
    }
    answers_.erase(id);
    answered_.erase(id);
    if (!forge_ && !wrote) return make_error(Code::io_error, "the forge ended before it answered");
    return {};
}

base::Result<void> Tuner::plant(whet_site* site, const void* content, size_t bytes,
                                bool skip_static) {
    if (!runtime_.options.test_hooks)
        return make_error(Code::unsupported, "WHET_TEST_HOOKS is not 1");
    if (!runtime_.may_tune)
        return make_error(Code::unsupported, "nothing is tuned: %s",
                          runtime_.untuned_reason.c_str());
    start();
    Lock lock(mutex_);
    while (!gave_up_ &&
           (!forge_ || site->index >= sites_.size() || !sites_[site->index].announced)) {
        changed_.wait_for(lock, std::chrono::milliseconds(20));
    }
    if (!forge_) return make_error(Code::unsupported, "no forge can be started");
    forge::PlantMessage message;
    message.site = site->id;
    message.is_blob = bytes > 0;
    message.skip_static = skip_static;
    const auto* const data = static_cast<const uint8_t*>(content);
    const size_t size = bytes > 0 ? bytes : std::strlen(static_cast<const char*>(content));
    message.content.assign(data, data + size);
    send(Message::plant, message);
    return {};
}

void Tuner::at_exit() noexcept {
    // The thread that holds the mutex has the lowest priority: on a busy machine it needs the core
    // that this one would spin on.
    Lock lock(mutex_, std::try_to_lock);
    for (int waited_ms = 0; !lock.owns_lock() && waited_ms < kLastReportWaitMs; ++waited_ms) {
        ::usleep(1000);
        if (lock.try_lock()) break;
    }
    if (!lock.owns_lock()) return;
    if (!page_ && !started_ && !runtime_.options.control_path.empty()) {
        if (auto page = ControlPage::open(runtime_.options.control_path)) page_ = std::move(*page);
    }
    if (!page_ || !page_->owned()) return;
    answer_watchers(0);
    page_->end();
}

void Tuner::close_in_child() noexcept {
    if (const int socket = socket_.exchange(-1); socket >= 0) ::close(socket);
}

}  // namespace whet::runtime
