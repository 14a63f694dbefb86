// SPDX-License-Identifier: Apache-2.0
// Sentences from a report.
#include "tools/whet/report/explain.hpp"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>

namespace whet::tools {
namespace {

/// What a reason of the runtime (its beginning) means for the user, and what changes it.
constexpr std::pair<std::string_view, std::string_view> kMeanings[] = {
    {"no plan yet", "No candidate has passed verification and timing so far."},
    {"the original is faster",
     "Right plans were found and timed against the original; none was faster by enough. A better "
     "one is offered when the search finds it."},
    {"no room for packed operands",
     "The plan wants a packed copy of a frozen operand; WHET_BUDGET_PACKED allows more."},
    {"generated code needs", "WHET_BUDGET_CODE is used up; it allows more."},
    {"slower than the original on live calls",
     "A plan served and was taken back; the whole family stays with the original."},
    {"nothing to compute", "The result is known without a product; there is nothing to tune."},
    {"published before the fork", "The plan came with the fork from the parent process."},
    {"evicted", "Colder operations go first; WHET_BUDGET_SITES keeps more."},
};

std::string_view meaning_of(const std::string& reason) {
    for (const auto& [begin, meaning] : kMeanings) {
        if (reason.starts_with(begin)) return meaning;
    }
    return {};
}

std::string printed(const char* format, double value) {
    char buffer[64];
    std::snprintf(buffer, sizeof(buffer), format, value);
    return buffer;
}

/// "4 refused by the static check, 5 gave a wrong result"; "" when there are none.
std::string listed(const std::vector<Refusal>& refusals) {
    std::string text;
    for (const Refusal& one : refusals) {
        if (one.count == 0) continue;
        text += (text.empty() ? "" : ", ") + format_count(one.count) + " " + one.why;
    }
    return text;
}

/// Whether the process tunes; else why not, which the report gives in place of the forge's name.
bool tunes(const Gains& gains) {
    return gains.forge.empty() || gains.forge == "process" || gains.forge == "thread";
}

std::string times_of(const GainRow& row) {
    std::string text =
        "  before " + format_time(row.before_us) + ", now " + format_time(row.now_us) + " a call";
    if (const auto gain = row.gain(); gain && row.served == "whet")
        text += ", gain " + printed("%.2fx", *gain);
    if (row.measured)
        text += " [" + printed("%.2f", row.measured->low) + ", " +
                printed("%.2f", row.measured->high) + "]";
    if (row.bound_us && row.now_us && *row.now_us > 0)
        text += "; the machine allows " + format_time(row.bound_us) + " (" +
                printed("%.0f %%", 100 * *row.bound_us / *row.now_us) + " of it reached)";
    return text + "\n";
}

std::string explain_row(const GainRow& row, const Gains& gains) {
    std::string text = row.op + "\n  " + format_count(row.calls) + " calls, " +
                       format_count(row.served_calls) + " answered by plans of whet\n" +
                       times_of(row);
    if (row.served == "whet") {
        text += "  served by whet" + (row.reason.empty() ? "" : ": " + row.reason) + "\n";
    } else {
        text += "  served by the original" + (row.reason.empty() ? "" : ": " + row.reason) + "\n";
    }
    if (const auto meaning = meaning_of(row.reason); !meaning.empty())
        text += "  " + std::string(meaning) + "\n";
    if (!row.schedule.empty()) text += "  schedule " + row.schedule + "\n";
    if (row.served != "whet" && !tunes(gains))
        text += "  not tuned: " +
                (gains.forge == "none" ? "no helper has been started yet" : gains.forge) + "\n";
    return text;
}

}  // namespace

std::optional<std::string> explain_text(const Gains& gains, const std::string& part) {
    const bool whole = std::any_of(gains.rows.begin(), gains.rows.end(),
                                   [&](const GainRow& row) { return row.op == part; });
    std::string text;
    for (const GainRow& row : gains.rows) {
        if (whole ? row.op == part : row.op.find(part) != std::string::npos)
            text += explain_row(row, gains) + "\n";
    }
    if (text.empty()) return std::nullopt;
    const std::string refused = listed(gains.rejections);
    text +=
        "of all candidates in this process: " + (refused.empty() ? "none was refused" : refused) +
        "\n";
    if (!gains.doing.empty()) text += "tuning now: " + gains.doing + "\n";
    return text;
}

std::string explain_absence(const Gains& gains, const std::string& part) {
    std::string text = "no operation of the process contains \"" + part + "\"";
    if (gains.rows.empty()) text += "; it has none";
    if (const std::string left = listed(gains.bypassed); !left.empty())
        text += "; calls left to the original unseen: " + left;
    if (!tunes(gains) && gains.forge != "none") text += "; nothing is tuned: " + gains.forge;
    return text;
}

}  // namespace whet::tools
