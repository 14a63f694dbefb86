// SPDX-License-Identifier: Apache-2.0
// What tuning brought, read from the reports of one or several processes and drawn as a table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace whet::tools {

/// A ratio of times (above 1: faster) and its 95 % interval.
struct Ratio {
    double ratio = 1, low = 1, high = 1;
};

/// One operation, over all processes that performed it.
struct GainRow {
    std::string op;        ///< as text, e.g. "linear m=32 k=384 n=1536"
    std::string served;    ///< "whet" or "original"
    std::string reason;    ///< why it is served so; may be empty
    std::string schedule;  ///< of the plan that serves; may be empty
    std::uint64_t calls = 0;
    std::optional<double> before_us;  ///< the original, a call
    std::optional<double> now_us;     ///< what serves now, a call
    std::optional<double> bound_us;   ///< what the machine allows, a call
    /// A measured ratio with its 95 % interval, and against what; of a process: the original's
    /// live calls, of the store: the plan before it. Left out when processes disagree.
    std::optional<Ratio> measured;
    std::uint64_t served_calls = 0;
    /// Before over now; empty when either is unknown.
    std::optional<double> gain() const;
};

/// Candidates and sites that a reason kept out.
struct Refusal {
    std::string why;
    std::uint64_t count = 0;
};

/// The table's content.
struct Gains {
    std::vector<GainRow> rows;  ///< most time first
    int processes = 0;
    std::uint64_t calls = 0, served_calls = 0;
    std::uint64_t trials = 0, compiles = 0, published = 0, rejected = 0;
    double tuning_cpu_seconds = 0;
    double saved_seconds = 0;
    double forge_cpu_seconds = 0, program_cpu_seconds = 0;
    std::uint64_t trials_without_compile = 0, code_bytes = 0, packed_bytes = 0, forge_restarts = 0;
    std::vector<Refusal> rejections;     ///< candidates, by the check that refused them
    std::vector<Refusal> bypassed;       ///< calls that no site was asked for, by reason
    std::string version, isa, numerics;  ///< of the first process that says them
    std::string forge, doing;  ///< likewise: where it is or why there is none; the activity
    bool from_store = false;   ///< no process, but what the store holds
};

/// Reads the JSON reports (whet_report), one per process, and merges equal operations: calls are
/// added, times averaged over calls. Reports that cannot be read are skipped.
Gains merge_reports(const std::vector<std::string>& reports);

/// Puts the shapes of one family (products that differ only in m) into one row each, "m=5..126";
/// times are averaged over the calls of the shapes for which both are known.
std::vector<GainRow> family_rows(const std::vector<GainRow>& rows);

/// The totals in one sentence.
std::string gains_sentence(const Gains& gains);
/// Draws the table, by family when there are more shapes than rows: a sentence of totals, then at
/// most `max_rows` rows, then what was left out.
std::string gains_text(const Gains& gains, std::size_t max_rows);

/// "12.3 us", "4.56 ms", "1.20 s": three digits, the unit that fits; "-" when empty.
std::string format_time(std::optional<double> microseconds);
/// 1234567 as "1,234,567".
std::string format_count(std::uint64_t count);

}  // namespace whet::tools
