// SPDX-License-Identifier: Apache-2.0
// The environment: one table of all WHET_ variables, parsed once into a typed struct.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace whet::base {

/// How a variable's text is read.
enum class VariableType {
    boolean,  ///< 0 or 1
    choice,   ///< one of the words in `range`
    integer,  ///< a whole number within `range`
    number,   ///< a decimal number within `range`, or a word named there
    bytes,    ///< a whole number with K, M, G (powers of 1024), or a word named in `range`
    text,     ///< anything
};

/// One row of the table.
struct Variable {
    std::string_view name;
    VariableType type;
    std::string_view default_text;  ///< as the documentation shows it; may be empty
    std::string_view range;         ///< choices "a, b, c", or a sentence about the range
    std::string_view refused;  ///< values that are named but not built: refused with one warning
    std::string_view sentence;
};

inline constexpr std::array kVariables = {
    Variable{"WHET_ENABLE", VariableType::boolean, "1", "0, 1", "",
             "0: every call goes straight to the original."},
    Variable{"WHET_TUNE", VariableType::choice, "on", "on, off, observe", "",
             "on; off uses the store and tunes nothing; observe only profiles."},
    Variable{"WHET_NUMERICS", VariableType::choice, "consistent",
             "consistent, invariant, relaxed, strict", "relaxed",
             "Which results a replacement may give (README, numerics)."},
    Variable{"WHET_PIN", VariableType::boolean, "0", "0, 1", "",
             "1: the table is pinned after the warm start."},
    Variable{"WHET_CHECKED", VariableType::boolean, "0", "0, 1", "",
             "1: every call is recomputed and compared; a difference is reported, the original's "
             "answer returned."},
    Variable{"WHET_FORGE", VariableType::choice, "auto", "auto, process, thread, off", "",
             "Where candidates are built, verified and measured; auto is process, else thread."},
    Variable{"WHET_ISA", VariableType::choice, "auto", "auto, avx512, avx2, portable", "",
             "Highest instruction set that generated code may use."},
    Variable{"WHET_BUDGET_CPU", VariableType::number, "auto", "0 to 1024, auto", "",
             "Share of one core; auto: a whole core while one is idle, 0.1 otherwise; much less while "
             "the program is throttled or waits; 0: nothing is tuned or started."},
    Variable{"WHET_BUDGET_SECONDS", VariableType::number, "unlimited", "0 or more, unlimited", "",
             "CPU seconds that this process may spend on tuning; compile time counts."},
    Variable{"WHET_BUDGET_TRIALS", VariableType::integer, "unlimited", "0 or more, unlimited", "",
             "Timed trials that this process may spend."},
    Variable{"WHET_BUDGET_MEMORY", VariableType::bytes, "auto", "bytes (K, M, G), auto", "",
             "The helper's memory; auto: 512M, more where one site's operands need it, never over "
             "a quarter of the "
             "cgroup's limit."},
    Variable{"WHET_BUDGET_CODE", VariableType::bytes, "16M", "bytes (K, M, G)", "",
             "Generated code kept mapped."},
    Variable{"WHET_BUDGET_PACKED", VariableType::bytes, "auto", "bytes (K, M, G), auto", "",
             "Packed copies of frozen operands; auto: the bytes that are frozen, never over a "
             "quarter of the cgroup's "
             "limit."},
    Variable{"WHET_BUDGET_SITES", VariableType::integer, "4096", "1 to 16777216", "",
             "Sites kept; the coldest go first."},
    Variable{"WHET_STORE", VariableType::text, "`$XDG_CACHE_HOME/whet/store.db`", "path, none",
             "redis://", "Where schedules and evidence are kept between runs."},
    Variable{"WHET_POLICY", VariableType::text, "auto", "a name of the policy registry", "",
             "The search policy."},
    Variable{"WHET_FORCE", VariableType::text, "", "an implementation or a schedule", "",
             "Forces an implementation or a schedule (tests, debugging)."},
    Variable{"WHET_TEST_HOOKS", VariableType::boolean, "0", "0, 1", "",
             "1: `whet_test_plant` works (never in a setuid program)."},
    Variable{"WHET_SEED", VariableType::integer, "0", "0 or more", "",
             "Seed of every random choice."},
    Variable{"WHET_LOG", VariableType::text, "warning", "level, topics, filter=TEXT", "",
             "Level (off, error, warning, info, debug), topics and a filter: "
             "`info,tuner,filter=matmul`."},
    Variable{"WHET_LOG_FILE", VariableType::text, "", "path", "",
             "Where log lines go instead of standard error."},
    Variable{"WHET_DUMP", VariableType::text, "", "path of a folder", "",
             "Folder for what was built: schedules, nests, disassembly."},
    Variable{"WHET_PERF", VariableType::boolean, "0", "0, 1", "",
             "1: names generated code in `/tmp/perf-PID.map`, which `perf` reads (never in a setuid "
             "program)."},
    Variable{"WHET_CONTROL", VariableType::text, "", "path of a file", "",
             "Set by `whet run`: the control page through which the parent watches this process."},
};

enum class Tune { on, off, observe };
enum class Numerics { consistent, invariant, relaxed, strict };
enum class ForgeMode { automatic, process, thread, off };
enum class IsaLimit { automatic, avx512, avx2, portable };

/// All options, with the defaults of the table. An empty optional means "auto".
struct Options {
    bool enable = true;
    Tune tune = Tune::on;
    Numerics numerics = Numerics::consistent;
    bool pin = false;
    bool checked = false;
    ForgeMode forge = ForgeMode::automatic;
    IsaLimit isa = IsaLimit::automatic;
    std::optional<double> budget_cpu;                                 ///< share of one core
    double budget_seconds = std::numeric_limits<double>::infinity();  ///< CPU seconds
    std::int64_t budget_trials = std::numeric_limits<std::int64_t>::max();
    std::optional<std::int64_t> budget_memory_bytes;
    std::int64_t budget_code_bytes = 16ll << 20;
    std::optional<std::int64_t> budget_packed_bytes;
    std::int64_t budget_sites = 4096;
    std::string store_path;  ///< absolute; empty: no store
    std::string policy = "auto";
    std::string force;
    bool test_hooks = false;
    std::uint64_t seed = 0;
    std::string log;
    std::string log_file;
    std::string dump_directory;  ///< absolute; empty: none
    bool perf = false;
    std::string control_path;
};

/// Parses an environment (null-terminated "NAME=value" array, as `environ`). Never fails: a value
/// that cannot be used leaves the default and adds one line to `warnings`; so does every WHET_ name
/// that the table does not hold. In a setuid program nothing of it is read. `policies` are the names that WHET_POLICY accepts besides auto;
/// when empty, every name is accepted.
Options load_options(const char* const* environment, std::vector<std::string>& warnings,
                     std::span<const std::string_view> policies = {});

/// Reads "4096", "512K", "16M", "2G". Empty when the text is anything else or does not fit.
std::optional<std::int64_t> parse_bytes(std::string_view text) noexcept;

/// Returns docs/env.md, made from the table.
std::string environment_page();

}  // namespace whet::base
