// SPDX-License-Identifier: Apache-2.0
#include "tools/whet/bench/facts.hpp"

#include <dirent.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <vector>

#include <whet/whet.h>

namespace whet::bench {
namespace {

void append_text(const char* text, size_t length, void* user) {
    static_cast<std::string*>(user)->append(text, length);
}

std::string axes(const int64_t* extents, int rank) {
    std::string text;
    for (int axis = 0; axis < rank; ++axis)
        text += (axis ? "x" : "") + std::to_string(extents[axis]);
    return text;
}

/// The fields of the report's operation text that tell a case of a suite from the others.
std::vector<std::string> fields_of(const Case& one) {
    const bench_shape& s = one.shape;
    const auto field = [](const char* name, int64_t value) {
        return std::string(name) + "=" + std::to_string(value);
    };
    switch (s.op) {
        case BENCH_LINEAR:
            return {"matmul", field("m", s.m), field("k", s.k), field("n", s.n), "b=t", "bias"};
        case BENCH_GEMM: return {"matmul", field("m", s.m), field("k", s.k), field("n", s.n)};
        case BENCH_BMM:
            return {"matmul", field("batch", s.batch), field("m", s.m), field("k", s.k),
                    field("n", s.n)};
        case BENCH_SOFTMAX: return {"softmax", field("rows", s.rows), field("columns", s.columns)};
        case BENCH_NORM: return {"norm"};
        case BENCH_CONV:
        case BENCH_CONV_TRANSPOSE: break;
    }
    std::vector<std::string> fields{
        field("n", s.batch), field("ci", s.in_channels), field("co", s.out_channels),
        "in=" + axes(s.spatial, s.spatial_rank), "k=" + axes(s.kernel, s.spatial_rank)};
    if (s.groups != 1) fields.push_back(field("groups", s.groups));
    return fields;
}

bool has_fields(const std::string& text, const std::vector<std::string>& fields) {
    const std::string padded = " " + text + " ";
    for (const std::string& field : fields)
        if (padded.find(" " + field + " ") == std::string::npos) return false;
    return true;
}

/// The helper process of this program, found by its name in this process group; 0: none.
int64_t helper_pid() {
    DIR* folder = opendir("/proc");
    int64_t found = 0;
    while (const dirent* entry = folder ? readdir(folder) : nullptr) {
        const pid_t pid = std::atoi(entry->d_name);
        if (pid <= 0 || getpgid(pid) != getpgrp()) continue;
        std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
        std::string name;
        if (std::getline(file, name) && name == "whet-forge") found = pid;
    }
    if (folder) closedir(folder);
    return found;
}

}  // namespace

nlohmann::json report_json() {
    std::string text;
    if (whet_report("json", append_text, &text) != WHET_OK) return nlohmann::json::object();
    nlohmann::json document = nlohmann::json::parse(text, nullptr, false);
    return document.is_object() ? document : nlohmann::json::object();
}

SiteFacts facts_of(const Case& one) {
    const nlohmann::json report = report_json();
    const std::vector<std::string> fields = fields_of(one);
    for (const nlohmann::json& site : report.value("sites", nlohmann::json::array()))
        if (has_fields(site.value("op", ""), fields))
            return {site.value("schedule", ""), site.value("reason", "")};
    return {};
}

ForgeFacts forge_facts() {
    const nlohmann::json report = report_json();
    const nlohmann::json tuning = report.value("tuning", nlohmann::json::object());
    ForgeFacts facts;
    facts.trials = tuning.value("trials", int64_t{0});
    facts.compiles = tuning.value("compiles", int64_t{0});
    facts.trials_without_compile = tuning.value("trials_without_compile", int64_t{0});
    facts.published = tuning.value("published", int64_t{0});
    facts.cpu_seconds = tuning.value("cpu_seconds", 0.0);
    facts.forge_cpu_seconds = tuning.value("forge_cpu_seconds", 0.0);
    facts.build_ms_p50 = tuning.value("build_ms_p50", 0.0);
    facts.build_ms_p95 = tuning.value("build_ms_p95", 0.0);
    facts.pid = helper_pid();
    return facts;
}

}  // namespace whet::bench
