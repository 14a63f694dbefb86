// SPDX-License-Identifier: Apache-2.0
// `whet run`: spawn, watch, report.
#include "tools/whet/run/run.hpp"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include <nlohmann/json.hpp>

#include "tools/whet/report/gains.hpp"

extern char** environ;

namespace whet::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLiveMilliseconds = 250;     // often enough to feel live, rare enough to cost nothing
constexpr std::size_t kMaxTableRows = 40;  // what still fits a screen or two

volatile sig_atomic_t child_pid = 0;

void forward_signal(int signal_number) {
    if (child_pid > 0) kill(static_cast<pid_t>(child_pid), signal_number);
}

/// While it lives: an interrupt from the terminal, which the command gets too, doesn't end the
/// parent, so that the table is still drawn; a request to terminate is passed on.
class SignalGuard {
public:
    SignalGuard() {
        struct sigaction ignore{}, forward{};
        ignore.sa_handler = SIG_IGN;
        forward.sa_handler = forward_signal;
        forward.sa_flags = SA_RESTART;
        for (size_t i = 0; i < std::size(kSignals); ++i) {
            const bool from_terminal = kSignals[i] == SIGINT || kSignals[i] == SIGQUIT;
            sigaction(kSignals[i], from_terminal ? &ignore : &forward, &before_[i]);
        }
    }
    ~SignalGuard() {
        for (size_t i = 0; i < std::size(kSignals); ++i)
            sigaction(kSignals[i], &before_[i], nullptr);
    }
    SignalGuard(const SignalGuard&) = delete;
    SignalGuard& operator=(const SignalGuard&) = delete;

    /// The signals that a child must find as this process found them: default, unless they were
    /// ignored.
    sigset_t defaults() const {
        sigset_t set;
        sigemptyset(&set);
        for (size_t i = 0; i < std::size(kSignals); ++i) {
            if (before_[i].sa_handler != SIG_IGN) sigaddset(&set, kSignals[i]);
        }
        return set;
    }

private:
    static constexpr int kSignals[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
    struct sigaction before_[std::size(kSignals)];
};

std::vector<char*> pointers(std::vector<std::string>& strings) {
    std::vector<char*> result;
    for (std::string& text : strings) result.push_back(text.data());
    result.push_back(nullptr);
    return result;
}

/// Returns 0 or errno.
int spawn(std::vector<std::string> command, std::vector<std::string> environment,
          const sigset_t& defaults, pid_t& pid) {
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    // A request to terminate that comes before the child's pid is known must not be lost: it waits.
    sigset_t waiting, before;
    sigemptyset(&waiting);
    sigaddset(&waiting, SIGTERM);
    sigaddset(&waiting, SIGHUP);
    sigprocmask(SIG_BLOCK, &waiting, &before);
    posix_spawnattr_setsigmask(&attributes, &before);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    const int failure = posix_spawnp(&pid, command[0].c_str(), nullptr, &attributes,
                                     pointers(command).data(), pointers(environment).data());
    posix_spawnattr_destroy(&attributes);
    if (failure == 0) child_pid = pid;
    sigprocmask(SIG_SETMASK, &before, nullptr);
    return failure;
}

std::string live_line(const std::vector<ProcessView>& views, double seconds) {
    ProcessView sum;
    for (const ProcessView& view : views) {
        sum.calls += view.calls;
        sum.served_calls += view.served_calls;
        sum.trials += view.trials;
        sum.published += view.published;
        sum.sites += view.sites;
        sum.tuning_cpu_ns += view.tuning_cpu_ns;
        sum.saved_ns += view.saved_ns;
        if (!view.ended && !view.activity.empty()) sum.activity = view.activity;
    }
    char time[32];
    std::snprintf(time, sizeof(time), "%.0f s", seconds);
    std::string line = std::string("whet ") + time + "  " + format_count(sum.calls) + " calls";
    if (sum.calls > 0)
        line += " (" + std::to_string(100 * sum.served_calls / sum.calls) + " % tuned)";
    line += "  " + format_count(sum.sites) + " shapes  " + format_count(sum.published) +
            " plans  " + format_count(sum.trials) + " trials  tuning " +
            format_time(static_cast<double>(sum.tuning_cpu_ns) * 1e-3) + "  saved " +
            format_time(static_cast<double>(sum.saved_ns) * 1e-3);
    if (!sum.activity.empty()) line += "  " + sum.activity;
    return line;
}

/// One line of a terminal, drawn over itself.
class LiveLine {
public:
    LiveLine() : shown_(isatty(STDERR_FILENO) != 0) {}
    ~LiveLine() { clear(); }
    LiveLine(const LiveLine&) = delete;
    LiveLine& operator=(const LiveLine&) = delete;

    bool shown() const { return shown_; }
    void draw(std::string line) {
        winsize size{};
        const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
        line.resize(std::min<size_t>(line.size(), known ? size.ws_col - 1u : 79u));
        std::fprintf(stderr, "\r%s\x1b[K", line.c_str());
        drawn_ = true;
    }
    void clear() {
        if (drawn_) std::fputs("\r\x1b[K", stderr);
        drawn_ = false;
    }

private:
    bool shown_;
    bool drawn_ = false;
};

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Waits for the child and draws meanwhile; returns its wait status.
int watch(pid_t child, const ControlHost& host, Clock::time_point start) {
    const int descriptor = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
    LiveLine line;
    int status = 0;
    for (;;) {
        pollfd waiting{descriptor, POLLIN, 0};
        // Without a pidfd (old kernels) the poll is a plain pause of the same length.
        poll(&waiting, descriptor >= 0 ? 1 : 0,
             descriptor >= 0 && !line.shown() ? -1 : kLiveMilliseconds);
        const pid_t ended = waitpid(child, &status, WNOHANG);
        if (ended == child || (ended < 0 && errno != EINTR)) break;
        if (line.shown()) line.draw(live_line(host.read(false), seconds_since(start)));
    }
    if (descriptor >= 0) close(descriptor);
    return status;
}

bool write_json(const std::string& path, const RunOptions& options, int exit_status, double seconds,
                const std::vector<ProcessView>& views) {
    nlohmann::json document = {
        {"command", options.command}, {"exit_status", exit_status}, {"seconds", seconds}};
    document["processes"] = nlohmann::json::array();
    for (const ProcessView& view : views) {
        nlohmann::json report = nlohmann::json::parse(view.report, nullptr, false);
        if (!report.is_object()) report = nlohmann::json::object();
        report["pid"] = view.pid;
        document["processes"].push_back(std::move(report));
    }
    std::ofstream file(path);
    file << document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
    file.close();
    return !file.fail();
}

void print_table(const std::vector<ProcessView>& views) {
    std::vector<std::string> reports;
    for (const ProcessView& view : views) {
        if (!view.report.empty()) reports.push_back(view.report);
    }
    const Gains gains = merge_reports(reports);
    if (gains.rows.empty()) {
        std::fputs("whet: the command performed no operation that whet handles\n", stderr);
        return;
    }
    std::fputs(gains_text(gains, kMaxTableRows).c_str(), stderr);
}

}  // namespace

std::string installed_library(const std::string& name) {
    char self[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (length <= 0) return {};
    std::string folder(self, static_cast<size_t>(length));
    folder.resize(folder.rfind('/'));
    folder.resize(folder.rfind('/'));
    const std::string path = folder + "/" WHET_LIBDIR "/" + name;
    return access(path.c_str(), R_OK) == 0 ? path : std::string();
}

std::vector<std::string> child_environment(
    const std::vector<std::pair<std::string, std::string>>& changes) {
    std::vector<std::string> environment;
    for (char** entry = environ; *entry; ++entry) {
        const std::string text = *entry;
        const std::string name = text.substr(0, text.find('='));
        const bool changed =
            std::any_of(changes.begin(), changes.end(),
                        [&name](const auto& change) { return change.first == name; });
        if (!changed) environment.push_back(text);
    }
    for (const auto& [name, value] : changes) {
        if (!value.empty()) environment.push_back(name + "=" + value);
    }
    return environment;
}

std::vector<std::pair<std::string, std::string>> preload_changes(const ControlHost& host,
                                                                 std::string& failure) {
    std::string library = installed_library("libwhet_blas.so");
    if (library.empty()) {
        failure = "libwhet_blas.so is not beside this installation";
        return {};
    }
    if (library.find_first_of(" :") != std::string::npos) {
        failure = library + " cannot be preloaded: its path holds a space or a colon";
        return {};
    }
    if (const char* before = std::getenv("LD_PRELOAD"); before && *before)
        library += std::string(":") + before;
    return {{"LD_PRELOAD", library}, {"WHET_CONTROL", host.path()}};
}

int run_command(const RunOptions& options) {
    ControlHost host;
    std::string failure = host.create();
    const auto changes = failure.empty() ? preload_changes(host, failure)
                                         : std::vector<std::pair<std::string, std::string>>();
    if (!failure.empty()) {
        std::fprintf(stderr, "whet: %s\n", failure.c_str());
        return kExitFailed;
    }
    const Clock::time_point start = Clock::now();
    const SignalGuard guard;
    pid_t child = 0;
    const int spawn_errno =
        spawn(options.command, child_environment(changes), guard.defaults(), child);
    if (spawn_errno != 0) {
        std::fprintf(stderr, "whet: cannot start %s: %s\n", options.command[0].c_str(),
                     std::strerror(spawn_errno));
        return spawn_errno == ENOENT ? kExitNotFound : kExitNotExecutable;
    }
    const int status = watch(child, host, start);
    child_pid = 0;

    const int exit_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    const std::vector<ProcessView> views = host.read(true);
    print_table(views);
    const bool wanted = !options.json_path.empty();
    if (wanted &&
        !write_json(options.json_path, options, exit_status, seconds_since(start), views)) {
        std::fprintf(stderr, "whet: cannot write %s\n", options.json_path.c_str());
        return exit_status != 0 ? exit_status : kExitFailed;
    }
    return exit_status;
}

}  // namespace whet::tools
