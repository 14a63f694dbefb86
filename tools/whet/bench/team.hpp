// SPDX-License-Identifier: Apache-2.0
// The threads that plans of several threads run on in the bench: those of the OpenMP runtime that
// the originals use, so that no side's waiting threads disturb the other.
#pragma once

#include <whet/whet.h>

namespace whet::bench {

/// The OpenMP runtime that a peer brought, else the compiler's. Throws std::runtime_error when
/// there is none. Lives as long as the process.
const whet_executor& openmp_team();

}  // namespace whet::bench
