// SPDX-License-Identifier: Apache-2.0
// The forge's main loop: frames in, work in between, offers and counters out, all within the
// budget.
#pragma once

#include <memory>

#include "base/status.hpp"
#include "runtime/forge/worker.hpp"

namespace whet::runtime::forge {

/// Serves one program until its socket closes. zygote: of a process of its own; null: a thread
/// inside the program, where only proven code runs. The calling thread gets the lowest priority and
/// blocks all signals. Returns 0, or 1 when the program spoke another protocol.
int serve(int socket, std::unique_ptr<Zygote> zygote);

}  // namespace whet::runtime::forge
