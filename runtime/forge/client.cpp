// SPDX-License-Identifier: Apache-2.0
// Starting a forge without the host noticing, and the frames of the program's end.
#include "runtime/forge/client.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "runtime/forge/orphans.hpp"

namespace whet::runtime::forge {
namespace {

using base::Code;
using base::make_error;

constexpr size_t kChildStack = 64 * 1024;  // bytes, each of the two short-lived children
constexpr int kHelperSocket = 3;           // the descriptor a helper finds its socket at

struct Launch {
    const char* path;
    int socket;
    char* const* environment;
    char* second_stack_top;
    int error;  ///< errno of the failed step
};

/// The helper-to-be: shares the program's memory until it executes, so it makes system calls only.
int second_step(void* argument) {
    auto* const launch = static_cast<Launch*>(argument);
    struct sigaction by_default;
    std::memset(&by_default, 0, sizeof by_default);
    by_default.sa_handler = SIG_DFL;
    for (int signal = 1; signal < NSIG; ++signal) ::sigaction(signal, &by_default, nullptr);
    ::dup2(launch->socket, kHelperSocket);
    ::fcntl(kHelperSocket, F_SETFD, 0);
    const int null = ::open("/dev/null", O_RDWR);
    for (int standard = 0; standard < kHelperSocket; ++standard) ::dup2(null, standard);
    ::syscall(SYS_close_range, kHelperSocket + 1, ~0u, 0);
    ::chdir("/");
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    char* const arguments[] = {const_cast<char*>(launch->path), nullptr};
    ::execve(launch->path, arguments, launch->environment);
    launch->error = errno;
    ::_exit(127);
}

/// The child in between: it never executes, so it has no exit signal; its end makes the helper an
/// orphan.
int first_step(void* argument) {
    auto* const launch = static_cast<Launch*>(argument);
    // SIGCHLD, as usual: the helper is the child of a process that is about to end, never of the
    // host.
    if (::clone(second_step, launch->second_stack_top, CLONE_VM | CLONE_VFORK | SIGCHLD, launch) <
        0) {
        launch->error = errno;
    }
    ::_exit(0);
}

std::vector<std::string> helper_environment(const std::vector<std::string>& whet_variables) {
    std::vector<std::string> lines = whet_variables;
    for (const char* name : {"HOME", "XDG_CACHE_HOME", "PATH", "TMPDIR"}) {
        if (const char* value = ::getenv(name)) lines.push_back(std::string(name) + "=" + value);
    }
    return lines;
}

struct Pair {
    base::UniqueFd ours, theirs;
};

base::Result<Pair> make_pair() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        return make_error(Code::io_error, "no socket pair: %s", std::strerror(errno));
    }
    return Pair{base::UniqueFd(ends[0]), base::UniqueFd(ends[1])};
}

base::Result<base::UniqueFd> start_process(const HelloMessage& hello) {
    const std::string path = hello.directory + "/whet-forge";
    if (::access(path.c_str(), X_OK) != 0) {
        return make_error(Code::not_found, "%s: %s", path.c_str(), std::strerror(errno));
    }
    WHET_TRY(Pair pair, make_pair());
    std::vector<std::string> lines = helper_environment(hello.environment);
    std::vector<char*> environment;
    for (auto& line : lines) environment.push_back(line.data());
    environment.push_back(nullptr);
    WHET_TRY_VOID(start_unseen(path.c_str(), pair.theirs.get(), environment.data()));
    return std::move(pair.ours);
}

using Serve = int (*)(int socket);

struct ThreadStart {
    Serve serve;
    int socket;
};

void* serve_in_thread(void* argument) {
    auto* const start = static_cast<ThreadStart*>(argument);
    const ThreadStart copy = *start;
    delete start;
    base::lower_priority();
    base::name_thread("whet-forge");
    copy.serve(copy.socket);
    ::close(copy.socket);
    return nullptr;
}

base::Result<base::UniqueFd> start_thread(const HelloMessage& hello) {
    const std::string path = hello.directory + "/libwhet_forge.so";
    void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) return make_error(Code::not_found, "%s", ::dlerror());
    const auto serve = reinterpret_cast<Serve>(::dlsym(library, "whet_forge_serve"));
    if (!serve) return make_error(Code::not_found, "%s: no whet_forge_serve in it", path.c_str());
    WHET_TRY(Pair pair, make_pair());
    auto* const start = new ThreadStart{serve, pair.theirs.release()};
    pthread_attr_t attributes;
    ::pthread_attr_init(&attributes);
    ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_t thread;
    const int error = ::pthread_create(&thread, &attributes, serve_in_thread,
                                       start);  // signals: the tuner's mask
    ::pthread_attr_destroy(&attributes);
    if (error != 0) {
        ::close(start->socket);
        delete start;
        return make_error(Code::out_of_budget, "no thread for the forge: %s", std::strerror(error));
    }
    return std::move(pair.ours);
}

}  // namespace

base::Result<void> start_unseen(const char* path, int socket, char* const* environment) {
    void* const stacks = ::mmap(nullptr, 2 * kChildStack, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stacks == MAP_FAILED)
        return make_error(Code::io_error, "no stack for a helper: %s", std::strerror(errno));
    char* const base_address = static_cast<char*>(stacks);
    Launch launch{path, socket, environment, base_address + 2 * kChildStack, 0};
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    const int saved_errno = errno;
    const pid_t child =
        ::clone(first_step, base_address + kChildStack, CLONE_VM | CLONE_VFORK, &launch);
    if (child < 0) launch.error = errno;
    while (child > 0 && ::waitpid(child, nullptr, __WCLONE) < 0 && errno == EINTR) {
    }
    errno = saved_errno;
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    ::munmap(stacks, 2 * kChildStack);
    if (launch.error == 0) return {};
    return make_error(Code::io_error, "cannot start %s: %s", path, std::strerror(launch.error));
}

base::Result<Client> Client::start(base::ForgeMode mode, const HelloMessage& hello,
                                   std::vector<std::string>& notes) {
    const bool may_process = mode == base::ForgeMode::automatic || mode == base::ForgeMode::process;
    const bool may_thread = mode != base::ForgeMode::process && mode != base::ForgeMode::off;
    Client client;
    base::Result<base::UniqueFd> socket = make_error(Code::not_found, "WHET_FORGE=off");
    if (may_process && program_would_see_helper()) {
        notes.push_back(
            "this program, or one above it, reaps orphans (PID 1 or a subreaper): the forge runs in a "
            "thread");
        socket = start_thread(hello);
        client.in_process_ = true;
    } else {
        if (may_process) socket = start_process(hello);
        if (!socket && may_thread) {
            const std::string why = may_process ? socket.error().message : "";
            socket = start_thread(hello);
            client.in_process_ = true;
            if (socket && may_process)
                notes.push_back("no helper process (" + why + "): the forge runs in a thread");
        }
    }
    if (!socket) return std::move(socket).error();
    client.socket_ = std::move(socket).value();
    // A forge that ended before it was greeted is found out by the first receive, like any that ends.
    const auto ignored = client.send(Message::hello, hello);
    (void)ignored;
    return client;
}

base::Result<void> Client::make_room() {
    for (;;) {
        pollfd waiting{socket_.get(), POLLIN | POLLOUT, 0};
        if (::poll(&waiting, 1, -1) < 0) {
            if (errno == EINTR) continue;
            return make_error(Code::io_error, "poll: %s", std::strerror(errno));
        }
        if (waiting.revents & (POLLERR | POLLNVAL)) return {};  // sending says why
        if (waiting.revents & POLLOUT) return {};
        Frame frame{};
        WHET_TRY(frame.type, receive_frame(socket_.get(), frame.payload));
        kept_.push_back(std::move(frame));
    }
}

base::Result<bool> Client::receive(int milliseconds, Message& type, std::vector<uint8_t>& payload) {
    if (!kept_.empty()) {
        type = kept_.front().type;
        payload = std::move(kept_.front().payload);
        kept_.pop_front();
        return true;
    }
    pollfd waiting{socket_.get(), POLLIN, 0};
    const int ready = ::poll(&waiting, 1, milliseconds);
    if (ready < 0 && errno != EINTR)
        return make_error(Code::io_error, "poll: %s", std::strerror(errno));
    if (ready <= 0) return false;
    WHET_TRY(type, receive_frame(socket_.get(), payload));
    return true;
}

}  // namespace whet::runtime::forge
