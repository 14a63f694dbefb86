// SPDX-License-Identifier: Apache-2.0
// The page of gains.
#include "tools/whet/report/page.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <utility>

namespace whet::tools {
namespace {

constexpr std::size_t kMaxBars = 40;                 // more do not fit a glance
constexpr double kBarStep = 30, kBarHeight = 16;     // pixels
constexpr double kPlotLeft = 360, kPlotRight = 880;  // pixels, of a drawing 960 wide
constexpr std::size_t kLabelBytes = 46;              // of 13 px monospace left of the plot

constexpr const char* kStyle = R"(
:root{color-scheme:light dark;--paper:#fbfaf8;--card:#fff;--ink:#1c1b1a;--soft:#6b6862;--line:#e4e0d9;
--good:#1f8a5b;--bad:#c2532d;--idle:#a9a49b;--accent:#2f6fb3}
@media(prefers-color-scheme:dark){:root{--paper:#161514;--card:#1f1e1c;--ink:#ece9e4;--soft:#a19c93;
--line:#34322e;--good:#4cc38a;--bad:#ee8a63;--idle:#6d6962;--accent:#6aa9ea}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.55 system-ui,sans-serif}
main{max-width:72rem;margin:0 auto;padding:2.5rem 1.25rem 4rem}
h1{font-size:1.75rem;line-height:1.2;margin:0;letter-spacing:-.02em}
h2{font-size:1.05rem;margin:0 0 .2rem}
p{margin:.35rem 0}
.soft{color:var(--soft)}
section{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:1.25rem 1.4rem;
margin-top:1.25rem}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(10.5rem,1fr));gap:1rem;margin-top:1.25rem}
.tile{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:.9rem 1.1rem}
.tile b{display:block;font-size:1.6rem;line-height:1.25;font-weight:650;letter-spacing:-.02em}
.tile span{color:var(--soft);font-size:.85rem}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(27rem,100%),1fr));gap:0 1.25rem}
.wide{overflow-x:auto}
svg{display:block;width:100%;height:auto;margin-top:.6rem}
.plot{min-width:44rem}
svg text{fill:var(--ink);font:13px ui-monospace,monospace}
svg .axis{fill:var(--soft);font:12px system-ui,sans-serif}
svg .words{font:13px system-ui,sans-serif}
.grid{stroke:var(--line)}.one{stroke:var(--soft)}
.good{fill:var(--good)}.bad{fill:var(--bad)}.idle{fill:var(--idle)}.accent{fill:var(--accent)}
.whisker{stroke:var(--ink);stroke-width:1.5;fill:none}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;font-size:.88rem}
th{color:var(--soft);font-weight:500;text-align:right;white-space:nowrap}
td{text-align:right;white-space:nowrap;vertical-align:top}
th,td{padding:.4rem .6rem;border-bottom:1px solid var(--line)}
tbody tr:last-child td{border-bottom:0}
td:first-child,th:first-child,td:last-child,th:last-child{text-align:left}
td:first-child{font-family:ui-monospace,monospace;font-size:.82rem;white-space:normal;min-width:13rem}
td:last-child{white-space:normal;min-width:18rem}
td:last-child,th:last-child{padding-left:1.5rem}
table.amounts td:first-child,table.amounts td{min-width:0;font-family:inherit;font-size:.88rem;white-space:normal;border-bottom:0;padding:.25rem .4rem .25rem 0}
table.amounts td:nth-child(2){white-space:nowrap}
table.amounts td:last-child{width:38%;min-width:5rem;padding-left:.8rem}
table.amounts svg{margin:.3rem 0 0;height:14px}
td small{display:block;color:var(--soft);font-size:.8rem;line-height:1.4}
td small.schedule{font-family:ui-monospace,monospace;font-size:.72rem;overflow-wrap:anywhere}
)";

std::string printed(const char* format, double value) {
    char buffer[64];
    std::snprintf(buffer, sizeof(buffer), format, value);
    return buffer;
}

/// Text for XML: control characters, which XML cannot hold, become spaces.
std::string escape(const std::string& raw) {
    std::string safe;
    for (const char character : raw) {
        switch (character) {
            case '&': safe += "&amp;"; break;
            case '<': safe += "&lt;"; break;
            case '>': safe += "&gt;"; break;
            case '"': safe += "&quot;"; break;
            default: safe += static_cast<unsigned char>(character) < 0x20 ? ' ' : character;
        }
    }
    return safe;
}

/// A figure as people read it, with all of its digits for programs.
std::string figure(double value, const std::string& shown) {
    return "<data value=\"" + printed("%.17g", value) + "\">" + shown + "</data>";
}

std::string figure(std::uint64_t value) {
    return "<data value=\"" + std::to_string(value) + "\">" + format_count(value) + "</data>";
}

std::string time_figure(std::optional<double> microseconds) {
    return microseconds ? figure(*microseconds, format_time(microseconds)) : "-";
}

std::string seconds_figure(double seconds) { return figure(seconds, format_time(seconds * 1e6)); }

std::string bytes_figure(std::uint64_t bytes) {
    const double value = static_cast<double>(bytes);
    return figure(value, bytes >= 1u << 20 ? printed("%.1f MiB", value / (1 << 20))
                         : bytes >= 1024   ? printed("%.1f KiB", value / 1024)
                                           : printed("%.0f B", value));
}

std::string shortened(const std::string& text) {
    return text.size() <= kLabelBytes ? text : text.substr(0, kLabelBytes - 2) + "..";
}

std::string tile(const char* name, const std::string& value, const std::string& caption) {
    return "<div class=\"tile\"><b id=\"" + std::string(name) + "\">" + value + "</b><span>" +
           caption + "</span></div>\n";
}

std::string head(const Gains& gains) {
    std::string about =
        gains.from_store ? "What the store holds for this machine"
        : gains.processes == 1
            ? std::string("One process")
            : format_count(static_cast<std::uint64_t>(gains.processes)) + " processes";
    if (!gains.version.empty()) about += ", Whet " + escape(gains.version);
    if (!gains.isa.empty()) about += ", " + escape(gains.isa);
    if (!gains.numerics.empty()) about += ", numerics " + escape(gains.numerics);
    return "<h1>What Whet gained</h1>\n<p class=\"soft\">" + about + "</p>\n";
}

std::string tiles(const Gains& gains) {
    std::string text = "<div class=\"tiles\">\n";
    if (gains.from_store) {
        text += tile("known", figure(gains.rows.size()), "operations known");
    } else {
        const double share =
            gains.calls ? static_cast<double>(gains.served_calls) / static_cast<double>(gains.calls)
                        : 0;
        text += tile("saved", seconds_figure(gains.saved_seconds), "saved in served calls, about");
        text += tile("share", figure(share, printed("%.0f %%", 100 * share)),
                     "of the calls served by plans");
        text += tile("calls", figure(gains.calls), "calls seen");
        text += tile("cpu", seconds_figure(gains.tuning_cpu_seconds), "of CPU spent on tuning");
    }
    return text + tile("trials", figure(gains.trials), "trials") + "</div>\n";
}

/// One bar of the plot: a ratio, perhaps with an interval.
struct Bar {
    const GainRow* row;
    double ratio;
    std::optional<Ratio> interval;
};

std::vector<Bar> bars_of(const Gains& gains) {
    std::vector<Bar> bars;
    for (const GainRow& row : gains.rows) {
        const auto gain = row.gain();
        if (row.measured && row.measured->ratio > 0) {
            bars.push_back({&row, row.measured->ratio, row.measured});
        } else if (gain && *gain > 0) {
            bars.push_back({&row, *gain, std::nullopt});
        }
    }
    return bars;
}

/// Ratios to pixels, logarithmic, so that 2x and 0.5x lie equally far from 1x.
struct Axis {
    double low = 0.9, high = 1.25;

    void include(double ratio) {
        low = std::max(1.0 / 64, std::min(low, ratio));
        high = std::min(64.0, std::max(high, ratio));
    }
    double at(double ratio) const {
        const double share = std::log(std::clamp(ratio, low, high) / low) / std::log(high / low);
        return kPlotLeft + share * (kPlotRight - kPlotLeft);
    }
};

std::string line(double x1, double y1, double x2, double y2, const char* kind) {
    return "<line class=\"" + std::string(kind) + "\" x1=\"" + printed("%.1f", x1) + "\" y1=\"" +
           printed("%.1f", y1) + "\" x2=\"" + printed("%.1f", x2) + "\" y2=\"" +
           printed("%.1f", y2) + "\"/>\n";
}

std::string rectangle(double x, double y, double width, double height, const char* kind) {
    return "<rect class=\"" + std::string(kind) + "\" x=\"" + printed("%.1f", x) + "\" y=\"" +
           printed("%.1f", y) + "\" width=\"" + printed("%.1f", std::max(width, 1.5)) +
           "\" height=\"" + printed("%.1f", height) + "\" rx=\"2\"/>";
}

std::string label(double x, double y, const char* kind, const char* anchor,
                  const std::string& text) {
    return "<text class=\"" + std::string(kind) + "\" x=\"" + printed("%.1f", x) + "\" y=\"" +
           printed("%.1f", y) + "\" text-anchor=\"" + anchor + "\">" + text + "</text>\n";
}

std::string grid_of(const Axis& axis, double bottom) {
    static constexpr double kTicks[] = {1.0 / 64, 1.0 / 16, 0.25, 0.5, 0.8, 1,  1.25,
                                        1.5,      2,        3,    4,   8,   16, 64};
    std::string text;
    double last = -1e9;
    for (const double tick : kTicks) {
        if (tick < axis.low || tick > axis.high) continue;
        const double x = axis.at(tick);
        const bool crowded = x - last < 44 && tick != 1;
        text += line(x, 24, x, bottom, tick == 1 ? "one" : "grid");
        if (crowded) continue;
        text += label(x, 14, "axis", "middle", printed("%.3gx", tick));
        last = x;
    }
    return text;
}

std::string draw(const Bar& bar, const Axis& axis, double top) {
    const double middle = top + kBarHeight / 2, one = axis.at(1), end = axis.at(bar.ratio);
    const char* const kind = bar.row->served.starts_with("original") ? "idle"
                             : bar.ratio >= 1                        ? "good"
                                                                     : "bad";
    std::string about = bar.row->op + ": " + printed("%.3fx", bar.ratio);
    if (bar.interval)
        about += ", 95 % interval " + printed("%.3f", bar.interval->low) + " to " +
                 printed("%.3f", bar.interval->high);
    std::string text = "<g><title>" + escape(about) + "</title>\n" +
                       label(0, middle + 4.5, "name", "start", escape(shortened(bar.row->op)));
    text += rectangle(std::min(one, end), top, std::abs(end - one), kBarHeight, kind) + "\n";
    double right = std::max(one, end);
    if (bar.interval) {
        const double low = axis.at(bar.interval->low), high = axis.at(bar.interval->high);
        text += line(low, middle, high, middle, "whisker") +
                line(low, middle - 4, low, middle + 4, "whisker") +
                line(high, middle - 4, high, middle + 4, "whisker");
        right = std::max(right, high);
    }
    return text + label(right + 8, middle + 4.5, "words", "start", printed("%.2fx", bar.ratio)) +
           "</g>\n";
}

std::string gains_section(const Gains& gains) {
    const std::vector<Bar> bars = bars_of(gains);
    std::string text = "<section id=\"gains\"><h2>Gain</h2>\n<p class=\"soft\">";
    if (bars.empty())
        return text + "No operation has been timed on both sides yet.</p></section>\n";
    text += gains.from_store
                ? "Each operation's plan against the plan before it"
                : "Time of the original over the time of what serves now, most expensive first";
    text +=
        "; right of 1x is faster. Lines are 95 % intervals; grey bars are served by the "
        "original.</p>\n";
    const std::size_t shown = std::min(bars.size(), kMaxBars);
    Axis axis;
    for (std::size_t i = 0; i < shown; ++i) {
        axis.include(bars[i].ratio);
        if (bars[i].interval) axis.include(std::min(bars[i].interval->high, bars[i].ratio * 2));
        if (bars[i].interval) axis.include(std::max(bars[i].interval->low, bars[i].ratio / 2));
    }
    const double bottom = 32 + static_cast<double>(shown) * kBarStep;
    text +=
        "<div class=\"wide\"><svg class=\"plot\" role=\"img\" aria-label=\"gain of each "
        "operation\" viewBox=\"0 0 960 " +
        printed("%.0f", bottom + 6) + "\">\n" + grid_of(axis, bottom);
    for (std::size_t i = 0; i < shown; ++i)
        text += draw(bars[i], axis, 36 + static_cast<double>(i) * kBarStep);
    text += "</svg></div>\n";
    if (shown < bars.size())
        text += "<p class=\"soft\">" + format_count(bars.size() - shown) +
                " more in the table below.</p>\n";
    return text + "</section>\n";
}

/// Bars of one kind, each with its words and its figure: a list that is drawn.
struct Amount {
    std::string words;
    double value;
    std::string shown;  ///< markup
    const char* kind;
};

std::string amounts(const std::vector<Amount>& list, const char* name) {
    double most = 0;
    for (const Amount& amount : list) most = std::max(most, amount.value);
    std::string text = "<table class=\"amounts\" id=\"" + std::string(name) + "\"><tbody>\n";
    for (const Amount& amount : list) {
        const double share = most > 0 ? amount.value / most : 0;
        text += "<tr><td>" + amount.words + "</td><td>" + amount.shown +
                "</td><td><svg viewBox=\"0 0 200 14\" aria-hidden=\"true\">";
        if (amount.value > 0) text += rectangle(0, 1, 198 * share, 12, amount.kind);
        text += "</svg></td></tr>\n";
    }
    return text + "</tbody></table>\n";
}

std::string refusals_section(const std::vector<Refusal>& refusals, const char* name,
                             const std::string& title, const std::string& about) {
    std::uint64_t all = 0;
    std::vector<Amount> list;
    for (const Refusal& one : refusals) {
        all += one.count;
        list.push_back({escape(one.why), static_cast<double>(one.count), figure(one.count), "bad"});
    }
    const std::string text =
        "<section><h2>" + title + "</h2>\n<p class=\"soft\">" + about + "</p>\n";
    if (all == 0) return text + "<p>None.</p></section>\n";
    return text + amounts(list, name) + "</section>\n";
}

std::string cost_section(const Gains& gains) {
    std::vector<Amount> list = {
        {"saved in served calls", std::max(0.0, gains.saved_seconds),
         seconds_figure(gains.saved_seconds), "good"},
        {"CPU of the helper", gains.forge_cpu_seconds, seconds_figure(gains.forge_cpu_seconds),
         "accent"},
        {"CPU of tuning in the program", gains.program_cpu_seconds,
         seconds_figure(gains.program_cpu_seconds), "accent"},
    };
    std::string text =
        "<section><h2>Cost of tuning</h2>\n<p class=\"soft\">" + format_count(gains.compiles) +
        " microkernels compiled; " + format_count(gains.trials_without_compile) + " of " +
        format_count(gains.trials) + " trials needed no compile; " + format_count(gains.published) +
        " plans published.</p>\n" + amounts(list, "cost");
    return text + "<p class=\"soft\">Generated code " + bytes_figure(gains.code_bytes) +
           ", packed operands " + bytes_figure(gains.packed_bytes) + ", helper restarted " +
           figure(gains.forge_restarts) + " times.</p></section>\n";
}

std::string reasons_section(const Gains& gains) {
    std::map<std::string, std::uint64_t> reasons;
    for (const GainRow& row : gains.rows) {
        if (row.served == "original") ++reasons[row.reason.empty() ? "not said" : row.reason];
    }
    std::vector<Refusal> list;
    for (const auto& [why, count] : reasons) list.push_back({why, count});
    std::stable_sort(list.begin(), list.end(),
                     [](const Refusal& a, const Refusal& b) { return a.count > b.count; });
    return refusals_section(list, "reasons", "Why the original serves",
                            "Operations, by the reason that they give.");
}

std::string table_row(const GainRow& row) {
    const auto gain = row.gain();
    std::string text = "<tr><td>" + escape(row.op.empty() ? "-" : row.op) + "</td><td>" +
                       figure(row.calls) + "</td><td>" + time_figure(row.before_us) + "</td><td>" +
                       time_figure(row.now_us) + "</td><td>";
    text += gain ? figure(*gain, printed("%.2fx", *gain)) : "-";
    text += "</td><td>" + time_figure(row.bound_us) + "</td><td>" +
            escape(row.served.empty() ? "-" : row.served);
    if (!row.reason.empty()) text += "<small>" + escape(row.reason) + "</small>";
    if (!row.schedule.empty())
        text += "<small class=\"schedule\">" + escape(row.schedule) + "</small>";
    return text + "</td></tr>\n";
}

std::string table_section(const Gains& gains) {
    std::string text =
        "<section><h2>All operations</h2>\n<div class=\"wide\"><table id=\"sites\"><thead><tr>"
        "<th>operation</th><th>calls</th><th>before</th><th>now</th><th>gain</th><th>bound</th>"
        "<th>served by</th></tr></thead><tbody>\n";
    const std::size_t shown = std::min(gains.rows.size(), kMaxPageRows);
    for (std::size_t i = 0; i < shown; ++i) text += table_row(gains.rows[i]);
    text += "</tbody></table></div>\n";
    if (shown < gains.rows.size())
        text += "<p class=\"soft\">And " + format_count(gains.rows.size() - shown) +
                " more operations.</p>\n";
    return text + "</section>\n";
}

}  // namespace

std::string gains_html(const Gains& gains) {
    std::string page =
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><title>Whet "
        "report</title>\n<meta name=\"viewport\" content=\"width=device-width, "
        "initial-scale=1\"/>\n<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
        "'none'; style-src 'unsafe-inline'\"/>\n<style>" +
        std::string(kStyle) + "</style></head>\n<body><main>\n";
    page += head(gains) + tiles(gains) + gains_section(gains);
    page += "<div class=\"pair\">\n";
    if (!gains.from_store) page += cost_section(gains);
    page += refusals_section(gains.rejections, "rejections", "Candidates refused",
                             "Programs that the search built and a check kept out.");
    page += reasons_section(gains);
    if (!gains.bypassed.empty())
        page += refusals_section(gains.bypassed, "bypassed", "Calls left alone",
                                 "Calls that went to the original without being looked at.");
    return page + "</div>\n" + table_section(gains) + "</main></body></html>\n";
}

}  // namespace whet::tools
