// SPDX-License-Identifier: Apache-2.0
// Printing reports.
#include "runtime/report/report.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <utility>

namespace whet::runtime {
namespace {

__attribute__((format(printf, 2, 3))) void append(std::string& text, const char* format, ...) {
    char buffer[512];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(buffer, sizeof buffer, format, arguments);
    va_end(arguments);
    text += buffer;
}

std::string quoted(const std::string& raw) {
    std::string text = "\"";
    for (const char c : raw) {
        if (c == '"' || c == '\\') {
            text += '\\';
            text += c;
        } else if (static_cast<unsigned char>(c) < 0x20) {
            append(text, "\\u%04x", c);
        } else {
            text += c;
        }
    }
    return text + "\"";
}

/// A number, or null where it is unknown.
std::string known(double value) {
    if (!(value > 0)) return "null";
    char buffer[32];
    std::snprintf(buffer, sizeof buffer, "%.6g", value);
    return buffer;
}

std::string gain_of(const ReportRow& row) {
    if (!(row.gain_low > 0)) return "";
    return ", \"gain\": {\"ratio\": " + known(row.gain) + ", \"low\": " + known(row.gain_low) +
           ", \"high\": " + known(row.gain_high) + "}";
}

std::string json(const Report& report) {
    std::string text = "{\n \"version\": " + quoted(report.version) +
                       ", \"isa\": " + quoted(report.isa) +
                       ", \"numerics\": " + quoted(report.numerics) + ",\n \"sites\": [";
    const char* separator = "\n";
    for (const auto& row : report.rows) {
        append(text, "%s  {\"id\": \"%016llx\", ", separator,
               static_cast<unsigned long long>(row.id));
        text += "\"op\": " + quoted(row.op) +
                ", \"served\": " + (row.served_by_whet ? "\"whet\"" : "\"original\"");
        append(text, ", \"calls\": %llu, \"served_calls\": %llu",
               static_cast<unsigned long long>(row.calls),
               static_cast<unsigned long long>(row.served_calls));
        text += ", \"before_us\": " + known(row.before_us) + ", \"now_us\": " + known(row.now_us) +
                ", \"bound_us\": " + known(row.bound_us) + gain_of(row) +
                ", \"schedule\": " + quoted(row.schedule) + ", \"reason\": " + quoted(row.reason) +
                "}";
        separator = ",\n";
    }
    append(text,
           "\n ],\n \"bypassed_calls\": {\"unsupported\": %llu, \"threads\": %llu, \"full\": %llu}",
           static_cast<unsigned long long>(report.bypassed_unsupported),
           static_cast<unsigned long long>(report.bypassed_threads),
           static_cast<unsigned long long>(report.bypassed_full));
    text += ",\n \"tuning\": {";
    append(text,
           "\"trials\": %llu, \"compiles\": %llu, \"trials_without_compile\": %llu, \"published\": "
           "%llu, ",
           static_cast<unsigned long long>(report.trials),
           static_cast<unsigned long long>(report.compiles),
           static_cast<unsigned long long>(report.trials_without_compile),
           static_cast<unsigned long long>(report.published));
    append(text,
           "\"rolled_back\": %llu, \"declined\": %llu, \"rejected\": %llu, \"rejected_static\": "
           "%llu, ",
           static_cast<unsigned long long>(report.rolled_back),
           static_cast<unsigned long long>(report.declined),
           static_cast<unsigned long long>(report.rejected()),
           static_cast<unsigned long long>(report.rejected_static));
    append(text, "\"rejected_wrong\": %llu, \"rejected_crashed\": %llu, \"rejected_slow\": %llu, ",
           static_cast<unsigned long long>(report.rejected_wrong),
           static_cast<unsigned long long>(report.rejected_crashed),
           static_cast<unsigned long long>(report.rejected_slow));
    append(text,
           "\"cpu_seconds\": %.6g, \"forge_cpu_seconds\": %.6g, \"program_cpu_seconds\": %.6g, ",
           report.forge_cpu_seconds + report.program_cpu_seconds, report.forge_cpu_seconds,
           report.program_cpu_seconds);
    append(text,
           "\"build_ms_p50\": %.6g, \"build_ms_p95\": %.6g, \"peak_gflops\": %.6g, \"stream_gbs\": "
           "%.6g, ",
           report.build_ms_p50, report.build_ms_p95, report.peak_gflops, report.stream_gbs);
    append(text,
           "\"code_bytes\": %llu, \"packed_bytes\": %llu, \"frozen_bytes\": %llu, "
           "\"forge_restarts\": %d, \"sites_open\": %u, ",
           static_cast<unsigned long long>(report.code_bytes),
           static_cast<unsigned long long>(report.packed_bytes),
           static_cast<unsigned long long>(report.frozen_bytes), report.forge_restarts,
           report.sites_open);
    append(text, "\"saved_seconds\": %.6g, ", report.saved_seconds());
    text +=
        "\"forge\": " + quoted(report.forge) + ", \"doing\": " + quoted(report.doing) + "}\n}\n";
    return text;
}

std::string table(const Report& report) {
    std::string text;
    append(text,
           "whet: %llu calls, %llu served by Whet, %.3f s saved; tuning: %llu trials, %llu "
           "compiles, %.2f s of CPU\n",
           static_cast<unsigned long long>(report.calls()),
           static_cast<unsigned long long>(report.served_calls()), report.saved_seconds(),
           static_cast<unsigned long long>(report.trials),
           static_cast<unsigned long long>(report.compiles),
           report.forge_cpu_seconds + report.program_cpu_seconds);
    if (report.bypassed_unsupported + report.bypassed_threads + report.bypassed_full > 0) {
        append(text,
               "whet: calls left to the original unseen: %llu of a form that Whet does not have, "
               "%llu on several threads, %llu beyond the budget of sites\n",
               static_cast<unsigned long long>(report.bypassed_unsupported),
               static_cast<unsigned long long>(report.bypassed_threads),
               static_cast<unsigned long long>(report.bypassed_full));
    }
    append(text, "%-56s %12s %10s %10s %6s %6s  %s\n", "operation", "calls", "before us", "now us",
           "gain", "bound", "schedule");
    for (const auto& row : report.rows) {
        const double gain = row.before_us > 0 && row.now_us > 0 ? row.before_us / row.now_us : 0;
        const double share = row.bound_us > 0 && row.now_us > 0 ? row.bound_us / row.now_us : 0;
        append(text, "%-56s %12llu %10.2f %10.2f %6.2f %6.2f  ", row.op.c_str(),
               static_cast<unsigned long long>(row.calls), row.before_us, row.now_us, gain, share);
        text += (row.served_by_whet ? row.schedule : "original (" + row.reason + ")") + "\n";
    }
    return text;
}

/// A label's value: at most kMaxLabelBytes, cut between characters, escaped as the text format
/// asks.
std::string label_value(const std::string& raw) {
    size_t kept = std::min(raw.size(), kMaxLabelBytes);
    while (kept < raw.size() && kept > 0 && (static_cast<unsigned char>(raw[kept]) & 0xc0) == 0x80)
        --kept;
    std::string text = "\"";
    for (const char c : raw.substr(0, kept)) {
        if (c == '"' || c == '\\') text += '\\';
        text += c == '\n' ? "\\n" : std::string(1, c);
    }
    return text + "\"";
}

/// Writes the text exposition format (version 0.0.4): each family's HELP, TYPE, then its samples.
class Exposition {
public:
    void family(const char* name, const char* type, const char* help) {
        name_ = std::string("whet_") + name;
        text_ += "# HELP " + name_ + " " + help + "\n# TYPE " + name_ + " " + type + "\n";
    }
    void sample(double value, const std::string& labels = {}) {
        text_ += name_ + (labels.empty() ? "" : "{" + labels + "}");
        append(text_, " %.17g\n", value);
    }
    void sample(uint64_t value, const std::string& labels = {}) {
        sample(static_cast<double>(value), labels);
    }
    void single(const char* name, const char* type, const char* help, double value) {
        family(name, type, help);
        sample(value);
    }
    void single(const char* name, const char* type, const char* help, uint64_t value) {
        single(name, type, help, static_cast<double>(value));
    }
    std::string take() { return std::move(text_); }

private:
    std::string text_, name_;
};

std::string reason_label(const char* reason) { return "reason=" + label_value(reason); }

void expose_sites(const Report& report, Exposition& out) {
    const size_t listed = std::min(report.rows.size(), kMaxSiteSeries);
    std::vector<std::string> labels;
    for (size_t i = 0; i < listed; ++i) {
        char id[24];
        std::snprintf(id, sizeof id, "%016llx", static_cast<unsigned long long>(report.rows[i].id));
        labels.push_back("site=\"" + std::string(id) + "\",op=" + label_value(report.rows[i].op));
    }
    const auto per_site = [&](const char* name, const char* type, const char* help,
                              const auto& value) {
        out.family(name, type, help);
        for (size_t i = 0; i < listed; ++i) {
            const double one = value(report.rows[i]);
            if (one >= 0) out.sample(one, labels[i]);
        }
    };
    const auto known_seconds = [](double us) { return us > 0 ? us * 1e-6 : -1; };
    per_site("site_calls_total", "counter", "Calls of an operation.",
             [](const ReportRow& row) { return static_cast<double>(row.calls); });
    per_site("site_served", "gauge", "1 where a plan serves the operation, 0 the original.",
             [](const ReportRow& row) { return row.served_by_whet ? 1.0 : 0.0; });
    per_site("site_before_seconds", "gauge", "Time of one call by the original.",
             [&](const ReportRow& row) { return known_seconds(row.before_us); });
    per_site("site_now_seconds", "gauge", "Time of one call by what serves now.",
             [&](const ReportRow& row) { return known_seconds(row.now_us); });
    per_site("site_bound_seconds", "gauge", "Time of one call that the machine allows.",
             [&](const ReportRow& row) { return known_seconds(row.bound_us); });
}

void expose_tuning(const Report& report, Exposition& out) {
    out.single("trials_total", "counter", "Candidates timed.", report.trials);
    out.single("compiles_total", "counter", "Microkernels built.", report.compiles);
    out.single("published_total", "counter", "Plans that went live.", report.published);
    out.single("rolled_back_total", "counter", "Plans taken back after they were live.",
               report.rolled_back);
    out.single("declined_total", "counter", "Right plans that the program did not take.",
               report.declined);
    out.family("rejected_total", "counter", "Candidates refused, by the check that refused them.");
    out.sample(report.rejected_static, reason_label("static"));
    out.sample(report.rejected_wrong, reason_label("wrong"));
    out.sample(report.rejected_crashed, reason_label("crashed"));
    out.sample(report.rejected_slow, reason_label("slow"));
    out.family("tuning_cpu_seconds_total", "counter", "CPU time of tuning, by where it was spent.");
    out.sample(report.forge_cpu_seconds, "place=\"forge\"");
    out.sample(report.program_cpu_seconds, "place=\"program\"");
    out.single("forge_restarts_total", "counter", "Times that the helper was started again.",
               static_cast<double>(report.forge_restarts));
    out.single("sites_open", "gauge", "Sites whose search goes on.",
               static_cast<double>(report.sites_open));
}

std::string prometheus(const Report& report) {
    Exposition out;
    out.family("info", "gauge", "What runs; always 1.");
    out.sample(1.0, "version=" + label_value(report.version) + ",isa=" + label_value(report.isa) +
                        ",numerics=" + label_value(report.numerics));
    out.single("sites", "gauge", "Sites known.", static_cast<double>(report.rows.size()));
    out.single("calls_total", "counter", "Calls of all sites.", report.calls());
    out.single("served_calls_total", "counter", "Calls answered by a plan of Whet.",
               report.served_calls());
    out.family("bypassed_calls_total", "counter", "Calls that no site was asked for.");
    out.sample(report.bypassed_unsupported, reason_label("unsupported"));
    out.sample(report.bypassed_threads, reason_label("threads"));
    out.sample(report.bypassed_full, reason_label("full"));
    // An estimate by the newest times: it may fall, which a counter must not.
    out.single("saved_seconds", "gauge", "Estimated time that served calls took less.",
               report.saved_seconds());
    out.single("code_bytes", "gauge", "Generated code.", report.code_bytes);
    out.single("packed_bytes", "gauge", "Packed copies of frozen operands.", report.packed_bytes);
    out.single("frozen_bytes", "gauge", "Operands that are frozen.", report.frozen_bytes);
    expose_tuning(report, out);
    expose_sites(report, out);
    return out.take();
}

}  // namespace

uint64_t Report::calls() const {
    uint64_t sum = 0;
    for (const auto& row : rows) sum += row.calls;
    return sum;
}

uint64_t Report::served_calls() const {
    uint64_t sum = 0;
    for (const auto& row : rows) sum += row.served_calls;
    return sum;
}

double Report::saved_seconds() const {
    double sum = 0;
    for (const auto& row : rows) {
        if (row.before_us > 0 && row.now_us > 0)
            sum += static_cast<double>(row.served_calls) * (row.before_us - row.now_us) * 1e-6;
    }
    return sum;
}

base::Result<std::string> print_report(const Report& report, std::string_view format) {
    if (format == "json") return json(report);
    if (format == "text") return table(report);
    if (format == "prometheus") return prometheus(report);
    return base::make_error(base::Code::invalid_argument,
                            "got report format \"%s\", expected text, json or prometheus",
                            std::string(format).c_str());
}

}  // namespace whet::runtime
