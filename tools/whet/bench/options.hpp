// SPDX-License-Identifier: Apache-2.0
// What the forms of `whet bench` are asked for on the command line.
#pragma once

#include <string>
#include <vector>

namespace whet::bench {

struct Options {
    std::vector<std::string> suites;
    std::vector<std::string> peers;
    int threads = 1;
    bool frozen = false;
    std::string numerics = "consistent";
    double budget_seconds = 20;  ///< of one core, for a case
    std::string only;            ///< one op of the suite; empty: all
    bool resume = false;
    std::string json;  ///< path; empty: none

    int callers = 1;            ///< dispatch
    int64_t candidates = 2000;  ///< tuner
    std::string forge = "process";
    int64_t plans = 200;  ///< warm
    int64_t shapes = 50'000;  ///< shapes

    std::string input;  ///< app
    int blocks = 21;
    int requests = 2000;
    bool busy = false;
    std::vector<std::string> command;

    std::vector<std::string> arguments;  ///< all of them as given, for children of this tool
};

/// Exit codes of the command line.
enum ExitCode { kDone = 0, kFailed = 1, kWrongUse = 2 };

// Each runs one form and returns its exit code; failures say why on standard error.
int bench_suites(const Options& options);
/// In a child that bench_suites started for one family: does its part, sets the exit code and
/// returns true.
bool run_family_role(const Options& options, int* exit_code);
int bench_peak(const Options& options);
int bench_dispatch(const Options& options);
int bench_tuner(const Options& options);
int bench_warm(const Options& options);
/// In a child that bench_warm started: does its part, sets the exit code and returns true.
bool run_warm_role(const Options& options, int* exit_code);
int bench_zero_trial(const Options& options);
int bench_unseen(const Options& options);
int bench_shapes(const Options& options);
int bench_app(const Options& options);

/// One line on standard error, drawn over the last one when that is a terminal (else nothing);
/// empty: clears it.
void show_progress(const std::string& line);
/// "whet bench: " and the text on standard error.
void complain(const std::string& text);
/// Prints one `name value` line per key of a flat JSON object, and writes the object to the path
/// when there is one.
int finish_flat(const Options& options, const std::string& json_text);

}  // namespace whet::bench
