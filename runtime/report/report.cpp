// SPDX-License-Identifier: Apache-2.0
// Printing reports.
#include "runtime/report/report.hpp"

#include <cstdarg>
#include <cstdio>

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

std::string prometheus(const Report& report) {
    std::string text;
    const auto metric = [&](const char* name, const char* type, double value) {
        append(text, "# TYPE whet_%s %s\nwhet_%s %.17g\n", name, type, name, value);
    };
    metric("sites", "gauge", static_cast<double>(report.rows.size()));
    metric("calls_total", "counter", static_cast<double>(report.calls()));
    metric("served_calls_total", "counter", static_cast<double>(report.served_calls()));
    metric("bypassed_unsupported_calls_total", "counter",
           static_cast<double>(report.bypassed_unsupported));
    metric("bypassed_threads_calls_total", "counter", static_cast<double>(report.bypassed_threads));
    metric("bypassed_full_calls_total", "counter", static_cast<double>(report.bypassed_full));
    metric("trials_total", "counter", static_cast<double>(report.trials));
    metric("compiles_total", "counter", static_cast<double>(report.compiles));
    metric("published_total", "counter", static_cast<double>(report.published));
    metric("rolled_back_total", "counter", static_cast<double>(report.rolled_back));
    metric("rejected_total", "counter", static_cast<double>(report.rejected()));
    metric("tuning_cpu_seconds_total", "counter",
           report.forge_cpu_seconds + report.program_cpu_seconds);
    metric("saved_seconds_total", "counter", report.saved_seconds());
    metric("code_bytes", "gauge", static_cast<double>(report.code_bytes));
    metric("packed_bytes", "gauge", static_cast<double>(report.packed_bytes));
    metric("forge_restarts_total", "counter", report.forge_restarts);
    return text;
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
