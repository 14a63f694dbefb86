// SPDX-License-Identifier: Apache-2.0
// The program's end of a forge: starts one as a helper process or a thread, and talks to it.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/env.hpp"
#include "base/status.hpp"
#include "base/threads.hpp"
#include "runtime/forge/protocol.hpp"

namespace whet::runtime::forge {

/// One forge, by its socket. Used by one thread (the tuner). A client whose peer ended is of no
/// further use.
class Client {
public:
    /// Starts a forge and sends it `hello`. Helpers are looked for in hello.directory. Notes, one
    /// line each, say what was given up (e.g. process mode under PID 1). not_found: no helper of
    /// the asked kind can be started.
    static base::Result<Client> start(base::ForgeMode mode, const HelloMessage& hello,
                                      std::vector<std::string>& notes);

    /// While the forge does not read because it waits to be read itself, its frames are taken in
    /// and kept: two full sockets never wait for each other.
    template <typename T>
    base::Result<void> send(Message type, const T& message) {
        WHET_TRY_VOID(make_room());
        return send_frame(socket_.get(), type, encode(message));
    }
    /// Waits at most `milliseconds` for a frame. True: `type` and `payload` hold one. io_error: the
    /// forge has ended.
    base::Result<bool> receive(int milliseconds, Message& type, std::vector<uint8_t>& payload);

    /// True when receive would return a frame without looking at the socket.
    bool has_kept() const noexcept { return !kept_.empty(); }
    bool in_process() const noexcept { return in_process_; }
    int socket() const noexcept { return socket_.get(); }

private:
    struct Frame {
        Message type;
        std::vector<uint8_t> payload;
    };
    base::Result<void> make_room();

    base::UniqueFd socket_;
    std::deque<Frame> kept_;  ///< received while sending
    bool in_process_ = false;
};

/// Starts `path` with `socket` as descriptor 3, everything else closed or /dev/null, in two steps:
/// a child that shares memory, has no exit signal and never executes starts the helper and ends,
/// and is reaped here by __WCLONE. The host's wait calls and SIGCHLD see nothing. environment:
/// null-terminated. io_error when it cannot be executed.
base::Result<void> start_unseen(const char* path, int socket, char* const* environment);

}  // namespace whet::runtime::forge
