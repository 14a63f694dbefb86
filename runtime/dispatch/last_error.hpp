// SPDX-License-Identifier: Apache-2.0
// The text of the calling thread's last failure, and the way from a Result to a whet_status.
#pragma once

#include <whet/whet.h>

#include "base/status.hpp"

namespace whet::runtime {

/// Keeps the message for whet_last_error and returns the code as the C ABI's.
whet_status fail(const base::Error& error) noexcept;
/// The calling thread's last message; "" when there was none.
const char* last_error() noexcept;

}  // namespace whet::runtime
