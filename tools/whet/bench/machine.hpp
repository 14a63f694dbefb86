// SPDX-License-Identifier: Apache-2.0
// This machine: its name, its caches, and its measured fused-multiply-add peak and stream
// bandwidth.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

namespace whet::bench {

struct Machine {
    std::string cpu, isa;  ///< isa: "avx512", "avx2" or "portable", as WHET_ISA forces it
    int cores = 1;         ///< that this process may use
    double last_level_bytes = 0;
    double peak_gflops = 0;  ///< f32, all `threads` together; 0 before measure_machine
    double stream_gbs = 0;   ///< reading memory, all `threads` together
};

/// Reads what the system tells; measures nothing.
Machine describe_machine();
/// Measures peak and stream with `threads` threads; about a second.
void measure_machine(Machine& machine, int threads);

nlohmann::json to_json(const Machine& machine);

/// Monotonic time in nanoseconds.
int64_t now_ns();

}  // namespace whet::bench
