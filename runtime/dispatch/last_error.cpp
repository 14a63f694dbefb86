// SPDX-License-Identifier: Apache-2.0
// The calling thread's last failure.
#include "runtime/dispatch/last_error.hpp"

#include <cstdio>

namespace whet::runtime {
namespace {
constexpr size_t kLongestMessage =
    512;  // bytes; a plain array, so that no thread-local destructor is needed
thread_local char last_message[kLongestMessage];
}  // namespace

whet_status fail(const base::Error& error) noexcept {
    std::snprintf(last_message, sizeof last_message, "%s", error.message.c_str());
    return static_cast<whet_status>(error.code);
}

const char* last_error() noexcept { return last_message; }

}  // namespace whet::runtime
