// SPDX-License-Identifier: Apache-2.0
// The executor that runs candidates in a worker process, so that a crash, a hang or a memory bomb
// ends only the worker.
#include "runtime/forge/worker.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>
#include <set>
#include <unordered_map>
#include <vector>

#include "base/clock.hpp"
#include "jit/sketch/space.hpp"
#include "runtime/forge/protocol.hpp"

namespace whet::runtime::forge {
namespace {

using base::Code;
using base::make_error;

constexpr size_t kMaxMessage =
    192 * 1024;                       ///< below the kernel's default limit of a socket's buffer
constexpr size_t kKernelsHeld = 256;  ///< microkernels a worker keeps; then both sides begin anew
constexpr double kBaseLimitSeconds =
    1;  ///< CPU time of a trial of a small operation, reference included
constexpr double kKernelLimitSeconds = 0.5;  ///< more for each microkernel that is checked alone
constexpr double kSlowestGflops = 1;  ///< a candidate slower than this is as good as hung
constexpr double kRunsPerTrial = 64;  ///< whole runs of the operation that a trial may take
constexpr int kRealTimeFactor =
    30;  ///< wall time against CPU time: an idle-priority worker may wait long

enum class Command : uint32_t { trial = 1, machine = 2, kernels = 3 };

struct DeathNotice {
    pid_t pid;
    int status;
    double cpu_seconds;
};

struct ReplyHeader {
    uint64_t sequence;
    double cpu_seconds;  ///< of the worker since it began
};

double seconds_of(const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

void put_kernels(Writer& writer, const std::vector<KernelRef>& kernels, std::set<uint64_t>& sent) {
    writer.put<uint32_t>(static_cast<uint32_t>(kernels.size()));
    for (const KernelRef& kernel : kernels) {
        writer.put(kernel->id);
        const bool with_code = sent.insert(kernel->id).second;
        writer.put<uint8_t>(with_code);
        if (!with_code) continue;
        writer.put<uint8_t>(kernel->proven);
        writer.put(kernel->blob.spec);
        writer.put(kernel->blob.entry);
        writer.put(kernel->blob.text_bytes);
        writer.put_bytes(kernel->blob.bytes.data(), kernel->blob.bytes.size());
    }
}

using KernelTable = std::unordered_map<uint64_t, KernelRef>;

std::vector<KernelRef> get_kernels(Reader& reader, KernelTable& table) {
    std::vector<KernelRef> kernels(std::min<uint32_t>(reader.get<uint32_t>(), kKernelsHeld));
    for (KernelRef& ref : kernels) {
        const auto id = reader.get<uint64_t>();
        if (reader.get<uint8_t>() != 0) {
            auto kernel = std::make_shared<BuiltKernel>();
            kernel->id = id;
            kernel->proven = reader.get<uint8_t>() != 0;
            kernel->blob.spec = reader.get<jit::MicrokernelSpec>();
            kernel->blob.entry = reader.get<uint32_t>();
            kernel->blob.text_bytes = reader.get<uint32_t>();
            kernel->blob.bytes = reader.get_bytes();
            table[id] = std::move(kernel);
        }
        ref = table[id];
    }
    return kernels;
}

void put_result(Writer& writer, const TrialResult& result) {
    writer.put(result.verdict);
    writer.put_string(result.reason);
    writer.put(result.checked_elements);
    writer.put(result.measured);
    writer.put(result.promising);
    writer.put(result.won);
    for (const double value : {result.candidate_ns, result.incumbent_ns, result.ratio, result.low,
                               result.high, result.control, result.cpu_seconds}) {
        writer.put(value);
    }
    writer.put(result.quads);
    writer.put(result.rejected_quads);
}

TrialResult get_result(Reader& reader) {
    TrialResult result;
    result.verdict = reader.get<Verdict>();
    result.reason = reader.get_string();
    result.checked_elements = reader.get<uint64_t>();
    result.measured = reader.get<bool>();
    result.promising = reader.get<bool>();
    result.won = reader.get<bool>();
    for (double* value : {&result.candidate_ns, &result.incumbent_ns, &result.ratio, &result.low,
                          &result.high, &result.control, &result.cpu_seconds}) {
        *value = reader.get<double>();
    }
    result.quads = reader.get<int>();
    result.rejected_quads = reader.get<int>();
    return result;
}

/// The worker's side of one request.
class Worker {
public:
    explicit Worker(int socket) : socket_(socket), buffer_(kMaxMessage) {}

    /// Serves until the forge is gone.
    void serve() {
        for (;;) {
            const ssize_t got = recv(socket_, buffer_.data(), buffer_.size(), 0);
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0) return;
            if (!answer(static_cast<size_t>(got))) return;
        }
    }

private:
    bool answer(size_t bytes) {
        Reader reader(buffer_.data(), bytes);
        const auto sequence = reader.get<uint64_t>();
        const auto settings = reader.get<ExecutorSettings>();
        const auto limit = reader.get<double>();
        const auto command = reader.get<Command>();
        if (reader.get<uint8_t>() != 0) kernels_.clear();
        if (executor_ == nullptr) {
            limit_memory(settings);
            executor_ = make_local_executor(settings, true);
        }
        set_timer(limit);
        Writer body;
        if (command == Command::machine) {
            const auto kernels = get_kernels(reader, kernels_);
            const auto record =
                executor_->measure_machine(kernels.empty() ? nullptr : kernels[0].get());
            body.put<uint8_t>(record.has_value());
            body.put(record ? *record : MachineRecord{});
        } else if (command == Command::kernels) {
            const auto kernels = get_kernels(reader, kernels_);
            if (!reader.ok()) return false;
            put_result(body, executor_->check_kernels(kernels));
        } else {
            const auto op = reader.get<whet_op>();
            const auto options = reader.get<TrialOptions>();
            Candidate candidate{reader.get<jit::Schedule>(), get_kernels(reader, kernels_)},
                incumbent;
            const bool has_incumbent = reader.get<uint8_t>() != 0;
            if (has_incumbent)
                incumbent = {reader.get<jit::Schedule>(), get_kernels(reader, kernels_)};
            if (!reader.ok()) return false;
            put_result(body, executor_->trial(op, candidate, has_incumbent ? &incumbent : nullptr,
                                              options));
        }
        set_timer(0);
        Writer reply;
        reply.put(ReplyHeader{sequence, static_cast<double>(base::process_cpu_ns()) * 1e-9});
        reply.put_bytes(body.bytes().data(), body.bytes().size());
        return send(socket_, reply.bytes().data(), reply.bytes().size(), MSG_NOSIGNAL) >= 0;
    }

    /// CPU time, so that a worker which the program's threads push aside is not blamed. The default
    /// action of SIGPROF ends the process.
    static void set_timer(double seconds) {
        itimerval timer{};
        timer.it_value.tv_sec = static_cast<time_t>(seconds);
        timer.it_value.tv_usec =
            static_cast<suseconds_t>((seconds - static_cast<double>(timer.it_value.tv_sec)) * 1e6);
        setitimer(ITIMER_PROF, &timer, nullptr);
    }

    static void limit_memory(const ExecutorSettings& settings) {
#ifdef __SANITIZE_ADDRESS__
        (void)settings;  // its shadow takes terabytes of address space
#else
        // Twice over the most that check_operands admits: packed copies, scratch and the rotation
        // come on top.
        const rlim_t most = static_cast<rlim_t>(settings.memory_bytes) * 8 + (rlim_t{256} << 20);
        const rlimit limit{most, most};
        setrlimit(RLIMIT_AS, &limit);
#endif
    }

    int socket_;
    std::vector<uint8_t> buffer_;
    std::unique_ptr<Executor> executor_;
    KernelTable kernels_;
};

void worker_main(int socket) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "whet-worker");
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    sigset_t timer;
    sigemptyset(&timer);
    sigaddset(&timer, SIGPROF);
    sigprocmask(SIG_UNBLOCK, &timer, nullptr);
    // Whatever handlers a host or a sanitizer has installed: here these end the process.
    for (const int number : {SIGPROF, SIGSEGV, SIGBUS, SIGILL, SIGFPE}) signal(number, SIG_DFL);
    Worker(socket).serve();
}

[[noreturn]] void zygote_main(int requests, int deaths, std::atomic<pid_t>* worker,
                              bool lowest_priority) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "whet-zygote");
    base::block_all_signals();  // a terminal's interrupt is the program's business; faults still
                                // end a worker
    if (lowest_priority) base::lower_priority();
    for (;;) {
        const pid_t pid = fork();
        if (pid == 0) {
            close(deaths);
            worker_main(requests);
            _exit(0);
        }
        DeathNotice notice{pid, 0, 0};
        rusage usage{};
        if (pid > 0) {
            worker->store(pid);
            while (wait4(pid, &notice.status, 0, &usage) < 0 && errno == EINTR) {
            }
            worker->store(0);
            notice.cpu_seconds = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
        }
        if (send(deaths, &notice, sizeof(notice), MSG_NOSIGNAL) < 0 || pid < 0) _exit(0);
        if (WIFEXITED(notice.status)) _exit(0);  // the forge is gone
    }
}

class WorkerExecutor final : public Executor {
public:
    WorkerExecutor(std::unique_ptr<Zygote> zygote, const ExecutorSettings& settings)
        : zygote_(std::move(zygote)), settings_(settings), buffer_(kMaxMessage) {}

    TrialResult trial(const whet_op& op, const Candidate& candidate, const Candidate* incumbent,
                      const TrialOptions& options) override {
        const double limit = kBaseLimitSeconds +
                             static_cast<double>(options.reference_budget_ns) * 2e-9 +
                             kRunsPerTrial * jit::flops_of(op) / kSlowestGflops * 1e-9;
        Writer request = begin(Command::trial, limit);
        request.put(op);
        request.put(options);
        request.put(candidate.schedule);
        put_kernels(request, candidate.kernels, sent_);
        request.put<uint8_t>(incumbent != nullptr);
        if (incumbent != nullptr) {
            request.put(incumbent->schedule);
            put_kernels(request, incumbent->kernels, sent_);
        }
        return result_of(request, limit);
    }

    TrialResult check_kernels(const std::vector<KernelRef>& kernels) override {
        const double limit =
            kBaseLimitSeconds + kKernelLimitSeconds * static_cast<double>(kernels.size());
        Writer request = begin(Command::kernels, limit);
        put_kernels(request, kernels, sent_);
        return result_of(request, limit);
    }

    base::Result<MachineRecord> measure_machine(const BuiltKernel* kernel) override {
        constexpr double kLimit = 10;
        Writer request = begin(Command::machine, kLimit);
        std::vector<KernelRef> kernels;
        if (kernel != nullptr) kernels.push_back(std::make_shared<BuiltKernel>(*kernel));
        put_kernels(request, kernels, sent_);
        WHET_TRY(const auto reply, exchange(request, kLimit, nullptr));
        Reader reader(reply.data(), reply.size());
        if (reader.get<uint8_t>() == 0)
            return make_error(Code::internal, "the machine could not be measured");
        return reader.get<MachineRecord>();
    }

    bool contained() const override { return true; }
    bool lost() const override { return lost_; }
    double outside_cpu_seconds() const override {
        return ended_cpu_seconds_ + current_cpu_seconds_;
    }

private:
    TrialResult result_of(const Writer& request, double limit) {
        TrialResult result;
        auto reply = exchange(request, limit, &result);
        if (!reply) {
            if (result.reason.empty()) result.reason = reply.error().message;
            return result;
        }
        Reader reader(reply->data(), reply->size());
        return get_result(reader);
    }

    Writer begin(Command command, double limit) {
        Writer request;
        request.put(++sequence_);
        request.put(settings_);
        request.put(limit);
        request.put(command);
        const bool forget = sent_.size() > kKernelsHeld;
        if (forget) sent_.clear();
        request.put<uint8_t>(forget);
        return request;
    }

    base::Error lose(const char* what) {
        lost_ = true;
        sent_.clear();
        return make_error(Code::io_error, "%s", what);
    }

    void note_death(const DeathNotice& notice) {
        ended_cpu_seconds_ += notice.cpu_seconds;
        current_cpu_seconds_ = 0;
        sent_.clear();
    }

    base::Result<std::vector<uint8_t>> exchange(const Writer& request, double limit,
                                                TrialResult* result);

    std::unique_ptr<Zygote> zygote_;
    ExecutorSettings settings_;
    std::vector<uint8_t> buffer_;
    std::set<uint64_t> sent_;  ///< kernels that the running worker holds
    uint64_t sequence_ = 0;
    bool lost_ = false;  ///< the zygote is gone
    double ended_cpu_seconds_ = 0, current_cpu_seconds_ = 0;
};

base::Result<std::vector<uint8_t>> WorkerExecutor::exchange(const Writer& request, double limit,
                                                            TrialResult* result) {
    if (request.bytes().size() > kMaxMessage) {
        sent_.clear();
        return make_error(Code::unsupported, "a request of %zu bytes is too large",
                          request.bytes().size());
    }
    while (send(zygote_->requests(), request.bytes().data(), request.bytes().size(), MSG_NOSIGNAL) <
           0) {
        if (errno == EINTR) continue;
        return lose("the worker is gone");
    }
    const int64_t until =
        base::steady_ns() + static_cast<int64_t>((limit * kRealTimeFactor + 30) * 1e9);
    bool killed = false;
    for (;;) {
        pollfd polled[2] = {{zygote_->requests(), POLLIN, 0}, {zygote_->deaths(), POLLIN, 0}};
        const int64_t left_ms = (until - base::steady_ns()) / 1'000'000;
        if (const pid_t worker = zygote_->worker(); left_ms <= 0 && !killed && worker > 0) {
            kill(worker, SIGKILL);
            killed = true;
        }
        if (poll(polled, 2, left_ms > 0 ? static_cast<int>(left_ms) : 1000) < 0 && errno != EINTR) {
            return make_error(Code::io_error, "poll failed: %s", std::strerror(errno));
        }
        if ((polled[0].revents & POLLIN) != 0) {
            const ssize_t got = recv(zygote_->requests(), buffer_.data(), buffer_.size(), 0);
            if (got <= 0) return lose("the worker is gone");
            Reader reader(buffer_.data(), static_cast<size_t>(got));
            const auto header = reader.get<ReplyHeader>();
            current_cpu_seconds_ = header.cpu_seconds;
            if (header.sequence != sequence_) continue;  // of a request that was given up
            return reader.get_bytes();
        }
        if (polled[1].revents != 0) {
            DeathNotice notice{};
            const ssize_t got = recv(zygote_->deaths(), &notice, sizeof(notice), 0);
            if (got != sizeof(notice) || notice.pid <= 0)
                return lose("no worker can be started");
            note_death(notice);
            if (result == nullptr) return make_error(Code::internal, "the worker ended");
            const int number = WIFSIGNALED(notice.status) ? WTERMSIG(notice.status) : 0;
            const bool late = number == SIGPROF || (number == SIGKILL && killed);
            result->verdict = late                ? Verdict::timed_out
                              : number == SIGKILL ? Verdict::failed  // somebody else's doing
                                                  : Verdict::crashed;
            result->reason = late                ? "did not end within its time"
                             : number == SIGKILL ? "its worker was killed"
                                                 : std::string("crashed: ") + strsignal(number);
            return make_error(Code::verify_failed, "%s", result->reason.c_str());
        }
    }
}

}  // namespace

Zygote::~Zygote() { munmap(worker_, sizeof(*worker_)); }

base::Result<std::unique_ptr<Zygote>> Zygote::start(bool lowest_priority) {
    int requests[2], deaths[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, requests) != 0) {
        return make_error(Code::io_error, "no socket pair: %s", std::strerror(errno));
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, deaths) != 0) {
        close(requests[0]);
        close(requests[1]);
        return make_error(Code::io_error, "no socket pair: %s", std::strerror(errno));
    }
    void* page = mmap(nullptr, sizeof(std::atomic<pid_t>), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    auto* const worker = page == MAP_FAILED ? nullptr : new (page) std::atomic<pid_t>(0);
    const pid_t pid = page == MAP_FAILED ? -1 : fork();
    if (pid == 0) {
        // Only these two descriptors and the standard ones: the zygote must not hold the program's
        // socket open.
        close_range(3, static_cast<unsigned>(std::min(requests[1], deaths[1])) - 1, 0);
        const auto low = static_cast<unsigned>(std::min(requests[1], deaths[1]));
        const auto high = static_cast<unsigned>(std::max(requests[1], deaths[1]));
        if (high > low + 1) close_range(low + 1, high - 1, 0);
        close_range(high + 1, ~0u, 0);
        zygote_main(requests[1], deaths[1], worker, lowest_priority);
    }
    close(requests[1]);
    close(deaths[1]);
    base::UniqueFd request_end(requests[0]), death_end(deaths[0]);
    if (pid < 0) return make_error(Code::io_error, "fork failed: %s", std::strerror(errno));
    return std::unique_ptr<Zygote>(
        new Zygote(std::move(request_end), std::move(death_end), worker));
}

std::unique_ptr<Executor> make_worker_executor(std::unique_ptr<Zygote> zygote,
                                               const ExecutorSettings& settings) {
    return std::make_unique<WorkerExecutor>(std::move(zygote), settings);
}

}  // namespace whet::runtime::forge
