// SPDX-License-Identifier: Apache-2.0
// The table of gains.
#include "tools/whet/report/gains.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

namespace whet::tools {
namespace {

using Json = nlohmann::json;

std::optional<double> number(const Json& object, const char* key) {
    const auto found = object.find(key);
    if (found == object.end() || !found->is_number()) return std::nullopt;
    return found->get<double>();
}

std::uint64_t count(const Json& object, const char* key) {
    const auto value = number(object, key);
    return value && *value > 0 ? static_cast<std::uint64_t>(*value) : 0;
}

std::string text(const Json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// Averages two times by the calls behind them.
std::optional<double> average(std::optional<double> a, std::uint64_t a_calls,
                              std::optional<double> b, std::uint64_t b_calls) {
    if (!a || !b) return a ? a : b;
    const double total = static_cast<double>(a_calls + b_calls);
    if (total == 0) return a;
    return (*a * static_cast<double>(a_calls) + *b * static_cast<double>(b_calls)) / total;
}

void merge_row(GainRow& into, const GainRow& row) {
    into.before_us = average(into.before_us, into.calls, row.before_us, row.calls);
    into.now_us = average(into.now_us, into.calls, row.now_us, row.calls);
    if (!into.measured || row.measured) {
        const bool both = into.measured && row.measured;
        into.measured = both ? std::nullopt : row.measured;
    }
    if (!into.bound_us) into.bound_us = row.bound_us;
    if (row.served == "whet" || into.served.empty()) {
        into.served = row.served;
        into.schedule = row.schedule;
        into.reason = row.reason;
    }
    into.calls += row.calls;
    into.served_calls += row.served_calls;
}

double weight(const GainRow& row) {
    return static_cast<double>(row.calls) * row.before_us.value_or(row.now_us.value_or(0));
}

std::optional<Ratio> ratio_of(const Json& site) {
    const Json gain = site.value("gain", Json());
    if (!gain.is_object()) return std::nullopt;
    const auto ratio = number(gain, "ratio"), low = number(gain, "low"),
               high = number(gain, "high");
    if (!ratio || !low || !high || !(*low > 0)) return std::nullopt;
    return Ratio{*ratio, *low, *high};
}

void add_refusal(std::vector<Refusal>& refusals, const char* why, std::uint64_t count) {
    for (Refusal& one : refusals) {
        if (one.why == why) return void(one.count += count);
    }
    refusals.push_back({why, count});
}

void merge_cost(const Json& report, const Json& tuning, Gains& gains) {
    gains.forge_cpu_seconds += number(tuning, "forge_cpu_seconds").value_or(0);
    gains.program_cpu_seconds += number(tuning, "program_cpu_seconds").value_or(0);
    gains.trials_without_compile += count(tuning, "trials_without_compile");
    gains.code_bytes += count(tuning, "code_bytes");
    gains.packed_bytes += count(tuning, "packed_bytes");
    gains.forge_restarts += count(tuning, "forge_restarts");
    static constexpr std::pair<const char*, const char*> kRejections[] = {
        {"rejected_static", "refused by the static check"},
        {"rejected_wrong", "gave a wrong result"},
        {"rejected_crashed", "crashed in the helper"},
        {"rejected_slow", "timed, not faster than the best plan so far"},
        {"declined", "right, but the program kept what it had"},
        {"rolled_back", "taken back after it was live"},
        {"quarantined", "quarantined in the store"},
    };
    for (const auto& [key, why] : kRejections) {
        if (tuning.contains(key)) add_refusal(gains.rejections, why, count(tuning, key));
    }
    static constexpr std::pair<const char*, const char*> kBypassed[] = {
        {"unsupported", "of a form that Whet does not have"},
        {"threads", "on several threads"},
        {"full", "beyond the budget of sites"},
    };
    const Json bypassed = report.value("bypassed_calls", Json::object());
    for (const auto& [key, why] : kBypassed) {
        if (bypassed.contains(key)) add_refusal(gains.bypassed, why, count(bypassed, key));
    }
    if (gains.version.empty()) gains.version = text(report, "version");
    if (gains.isa.empty()) gains.isa = text(report, "isa");
    if (gains.numerics.empty()) gains.numerics = text(report, "numerics");
    if (gains.forge.empty()) gains.forge = text(tuning, "forge");
    if (gains.doing.empty()) gains.doing = text(tuning, "doing");
    gains.from_store |= text(report, "source") == "store";
}

void merge_process(const Json& report, Gains& gains, std::map<std::string, GainRow>& rows) {
    ++gains.processes;
    for (const Json& site : report.value("sites", Json::array())) {
        if (!site.is_object()) continue;
        GainRow row;
        row.op = text(site, "op");
        row.served = text(site, "served");
        row.reason = text(site, "reason");
        row.schedule = text(site, "schedule");
        row.calls = count(site, "calls");
        row.before_us = number(site, "before_us");
        row.now_us = number(site, "now_us");
        row.bound_us = number(site, "bound_us");
        row.measured = ratio_of(site);
        gains.calls += row.calls;
        const auto served_calls = number(site, "served_calls");
        const std::uint64_t served = served_calls ? static_cast<std::uint64_t>(*served_calls)
                                     : row.served == "whet" ? row.calls
                                                            : 0;
        gains.served_calls += served;
        row.served_calls = served;
        if (row.served == "whet" && row.before_us && row.now_us) {
            gains.saved_seconds +=
                static_cast<double>(served) * (*row.before_us - *row.now_us) * 1e-6;
        }
        const auto [position, inserted] = rows.try_emplace(row.op, row);
        if (!inserted) merge_row(position->second, row);
    }
    const Json tuning = report.value("tuning", Json::object());
    gains.trials += count(tuning, "trials");
    gains.compiles += count(tuning, "compiles");
    gains.published += count(tuning, "published");
    gains.rejected += count(tuning, "rejected");
    gains.tuning_cpu_seconds += number(tuning, "cpu_seconds").value_or(0);
    merge_cost(report, tuning, gains);
}

/// "matmul m=32 k=8 n=9" gives {"matmul m=# k=8 n=9", 32}; other operations give themselves and -1.
std::pair<std::string, long> split_rows_axis(const std::string& op) {
    constexpr std::string_view kPrefix = "matmul m=";
    if (!op.starts_with(kPrefix)) return {op, -1};
    const size_t end = op.find(' ', kPrefix.size());
    const std::string digits = op.substr(kPrefix.size(), end - kPrefix.size());
    const long m = std::strtol(digits.c_str(), nullptr, 10);
    return {std::string(kPrefix) + "#" + (end == std::string::npos ? "" : op.substr(end)), m};
}

/// Sums over the shapes of one family.
struct Family {
    std::string name;
    long first_m, last_m;
    std::uint64_t timed_calls;  ///< calls of the shapes with both times
    double before_us, now_us, bound_us;
    bool bound_missing;
    std::vector<GainRow> shapes;

    void add(const GainRow& shape, long m) {
        first_m = std::min(first_m, m);
        last_m = std::max(last_m, m);
        shapes.push_back(shape);
        if (!shape.before_us || !shape.now_us) return;
        const double calls = static_cast<double>(shape.calls);
        timed_calls += shape.calls;
        before_us += *shape.before_us * calls;
        now_us += *shape.now_us * calls;
        bound_us += shape.bound_us.value_or(0) * calls;
        bound_missing |= !shape.bound_us;
    }

    GainRow row() const {
        if (shapes.size() == 1) return shapes[0];
        GainRow merged;
        merged.op = name;
        const std::string range = std::to_string(first_m) + ".." + std::to_string(last_m);
        merged.op.replace(name.find('#'), 1, range);
        size_t served = 0;
        for (const GainRow& shape : shapes) {
            merged.calls += shape.calls;
            served += shape.served == "whet";
        }
        merged.served = served == shapes.size() ? "whet"
                        : served == 0           ? "original"
                                                : "whet " + std::to_string(served) + " of " +
                                            std::to_string(shapes.size());
        if (timed_calls > 0) {
            const double calls = static_cast<double>(timed_calls);
            merged.before_us = before_us / calls;
            merged.now_us = now_us / calls;
            if (!bound_missing) merged.bound_us = bound_us / calls;
        }
        return merged;
    }
};

std::string printed(const char* format, double value) {
    char buffer[64];
    std::snprintf(buffer, sizeof(buffer), format, value);
    return buffer;
}

std::vector<std::string> cells(const GainRow& row) {
    const auto gain = row.gain();
    return {row.op.empty() ? "-" : row.op,        format_count(row.calls),
            format_time(row.before_us),           format_time(row.now_us),
            gain ? printed("%.2fx", *gain) : "-", format_time(row.bound_us),
            row.served.empty() ? "-" : row.served};
}

const std::vector<std::string> kHeads = {"shape", "calls", "before",   "now",
                                         "gain",  "bound", "served by"};

/// Pads to a width in bytes; all cells are ASCII.
std::string pad(const std::string& cell, size_t width, bool left) {
    if (cell.size() >= width) return cell;
    const std::string space(width - cell.size(), ' ');
    return left ? cell + space : space + cell;
}

}  // namespace

std::optional<double> GainRow::gain() const {
    if (!before_us || !now_us || *now_us <= 0) return std::nullopt;
    return *before_us / *now_us;
}

std::string format_time(std::optional<double> microseconds) {
    if (!microseconds) return "-";
    double value = *microseconds;
    const char* unit = " us";
    if (value >= 1e6) {
        value *= 1e-6;
        unit = " s";
    } else if (value >= 1e3) {
        value *= 1e-3;
        unit = " ms";
    }
    return printed(value >= 99.95 ? "%.0f" : value >= 9.995 ? "%.1f" : "%.2f", value) + unit;
}

std::string format_count(std::uint64_t value) {
    std::string digits = std::to_string(value);
    for (int position = static_cast<int>(digits.size()) - 3; position > 0; position -= 3) {
        digits.insert(static_cast<size_t>(position), ",");
    }
    return digits;
}

Gains merge_reports(const std::vector<std::string>& reports) {
    Gains gains;
    std::map<std::string, GainRow> rows;
    for (const std::string& report : reports) {
        const Json parsed = Json::parse(report, nullptr, false);
        if (parsed.is_object()) merge_process(parsed, gains, rows);
    }
    for (auto& [op, row] : rows) gains.rows.push_back(std::move(row));
    std::stable_sort(gains.rows.begin(), gains.rows.end(),
                     [](const GainRow& a, const GainRow& b) { return weight(a) > weight(b); });
    return gains;
}

std::vector<GainRow> family_rows(const std::vector<GainRow>& rows) {
    std::vector<Family> families;
    std::map<std::string, size_t> known;
    for (const GainRow& row : rows) {
        const auto [name, m] = split_rows_axis(row.op);
        const auto [position, inserted] = known.try_emplace(name, families.size());
        if (inserted) families.push_back({name, m, m, 0, 0, 0, 0, false, {}});
        families[position->second].add(row, m);
    }
    std::vector<GainRow> merged;
    for (Family& family : families) merged.push_back(family.row());
    std::stable_sort(merged.begin(), merged.end(),
                     [](const GainRow& a, const GainRow& b) { return weight(a) > weight(b); });
    return merged;
}

std::string gains_sentence(const Gains& gains) {
    const double share = gains.calls ? 100.0 * static_cast<double>(gains.served_calls) /
                                           static_cast<double>(gains.calls)
                                     : 0;
    std::string line = format_count(gains.calls) + " calls";
    if (gains.processes > 1) line += " in " + std::to_string(gains.processes) + " processes";
    line += ", " + printed("%.0f", share) + " % served by tuned plans";
    if (gains.saved_seconds > 0)
        line += ", about " + format_time(gains.saved_seconds * 1e6) + " saved";
    line += "; tuning took " + format_time(gains.tuning_cpu_seconds * 1e6) +
            " of CPU: " + format_count(gains.trials) + " trials, " + format_count(gains.compiles) +
            " compiles, " + format_count(gains.published) + " plans published, " +
            format_count(gains.rejected) + " candidates rejected";
    return line;
}

std::string gains_text(const Gains& gains, std::size_t max_rows) {
    std::string out = "whet: " + gains_sentence(gains) + "\n";
    if (gains.rows.size() > max_rows) {
        Gains families = gains;
        families.rows = family_rows(gains.rows);
        if (families.rows.size() < gains.rows.size()) return gains_text(families, max_rows);
    }
    const size_t shown = std::min(gains.rows.size(), max_rows);
    if (shown == 0) return out;
    std::vector<std::vector<std::string>> lines = {kHeads};
    for (size_t i = 0; i < shown; ++i) lines.push_back(cells(gains.rows[i]));
    std::vector<size_t> widths(kHeads.size());
    for (const auto& line : lines) {
        for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
    }
    for (const auto& line : lines) {
        std::string drawn;
        for (size_t i = 0; i < line.size(); ++i) {
            drawn += (i ? "  " : "") + pad(line[i], widths[i], i == 0 || i + 1 == line.size());
        }
        drawn.erase(drawn.find_last_not_of(' ') + 1);
        out += "  " + drawn + "\n";
    }
    if (shown < gains.rows.size()) {
        out += "  and " + format_count(gains.rows.size() - shown) + " more shapes\n";
    }
    return out;
}

}  // namespace whet::tools
