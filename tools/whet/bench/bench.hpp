// SPDX-License-Identifier: Apache-2.0
// `whet bench`: operators, applications and Whet's own costs, measured.
#pragma once

/// Runs `whet bench` with its own arguments (argv[0] is "bench"). Returns the exit code: 0, 1
/// (failed), 2 (wrong use).
int bench_main(int argc, char** argv);
