// SPDX-License-Identifier: Apache-2.0
// The C entries of libwhet_forge.so.
#include "runtime/forge/server.hpp"

#include <whet/whet.h>

extern "C" {

/// Serves a program from a thread inside it. Blocks until the socket closes; closes nothing.
WHET_API int whet_forge_serve(int socket) noexcept {
    return whet::runtime::forge::serve(socket, nullptr);
}

/// Serves a program from a process of its own, which must still have one thread.
WHET_API int whet_forge_main(int socket) noexcept {
    auto zygote = whet::runtime::forge::Zygote::start();
    if (!zygote) return 1;
    return whet::runtime::forge::serve(socket, std::move(*zygote));
}
}
