// SPDX-License-Identifier: Apache-2.0
#include "tools/whet/bench/result.hpp"

#include <cstdarg>
#include <cstdio>
#include <fstream>

#include <unistd.h>

namespace whet::bench {
namespace {

using nlohmann::json;

void append(std::string& text, const char* format, ...) __attribute__((format(printf, 2, 3)));
void append(std::string& text, const char* format, ...) {
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    text += line;
}

Interval interval_from(const json& value) {
    return {value.value("ratio", 1.0), value.value("low", 1.0), value.value("high", 1.0)};
}

json case_to_json(const CaseResult& one) {
    json peers = json::object();
    for (const auto& [name, peer] : one.peers) {
        peers[name] = to_json(peer.ratio);
        peers[name]["us"] = peer.us;
    }
    return {{"suite", one.suite},
            {"name", one.name},
            {"op", one.op},
            {"family", one.family},
            {"served", one.served ? "whet" : "original"},
            {"whet_us", one.whet_us},
            {"bound_us", one.bound_us},
            {"bound_share", one.bound_share()},
            {"peers", peers},
            {"control", to_json(one.control)},
            {"control_holds", one.control_holds},
            {"schedule", one.schedule},
            {"reason", one.reason},
            {"trials", one.trials},
            {"compiles", one.compiles},
            {"tune_seconds", one.tune_seconds}};
}

CaseResult case_from(const json& row) {
    CaseResult one;
    one.suite = row.at("suite");
    one.name = row.at("name");
    one.op = row.at("op");
    one.family = row.at("family");
    one.served = row.at("served") == "whet";
    one.whet_us = row.at("whet_us");
    one.bound_us = row.at("bound_us");
    one.control = interval_from(row.at("control"));
    one.control_holds = row.value("control_holds", true);
    one.schedule = row.value("schedule", "");
    one.reason = row.value("reason", "");
    one.trials = row.value("trials", int64_t{0});
    one.compiles = row.value("compiles", int64_t{0});
    one.tune_seconds = row.value("tune_seconds", 0.0);
    for (const auto& [name, peer] : row.at("peers").items())
        one.peers[name] = {peer.value("us", 0.0), interval_from(peer)};
    return one;
}

}  // namespace

Interval Result::control() const {
    std::vector<Interval> all;
    for (const CaseResult& one : cases) all.push_back(one.control);
    return geomean_of(all);
}

std::vector<std::string> Result::peer_names() const {
    std::map<std::string, bool> names;
    for (const CaseResult& one : cases)
        for (const auto& entry : one.peers) names[entry.first] = true;
    std::vector<std::string> list;
    for (const auto& entry : names) list.push_back(entry.first);
    return list;
}

std::map<std::string, Interval> Result::geomeans(const std::string& peer) const {
    std::map<std::string, std::vector<Interval>> groups;
    for (const CaseResult& one : cases) {
        const auto found = one.peers.find(peer);
        if (found == one.peers.end() || !one.counts()) continue;
        groups["all"].push_back(found->second.ratio);
        groups[one.family].push_back(found->second.ratio);
    }
    std::map<std::string, Interval> means;
    for (const auto& [name, ratios] : groups) means[name] = geomean_of(ratios);
    return means;
}

json to_json(const Interval& interval) {
    return {{"ratio", interval.ratio}, {"low", interval.low}, {"high", interval.high}};
}

json to_json(const Result& result) {
    json cases = json::array(), geomean = json::object();
    for (const CaseResult& one : result.cases) cases.push_back(case_to_json(one));
    for (const std::string& peer : result.peer_names()) {
        geomean[peer] = json::object();
        for (const auto& [name, mean] : result.geomeans(peer)) geomean[peer][name] = to_json(mean);
    }
    return {{"machine", to_json(result.machine)},
            {"settings", result.settings},
            {"control", to_json(result.control())},
            {"cases", cases},
            {"geomean", geomean}};
}

std::vector<CaseResult> read_cases(const std::string& path) {
    std::vector<CaseResult> cases;
    std::ifstream file(path);
    const json document = json::parse(file, nullptr, false);
    if (!document.is_object() || !document.contains("cases")) return cases;
    try {
        for (const json& row : document["cases"]) cases.push_back(case_from(row));
    } catch (const json::exception&) {
        cases.clear();  // another program's file
    }
    return cases;
}

std::string table_of(const Result& result) {
    const std::vector<std::string> peers = result.peer_names();
    std::string text;
    append(text, "%-24s %-8s %10s %6s", "case", "served", "whet us", "bound");
    for (const std::string& peer : peers)
        append(text, "  %10s us  ratio [low, high]    ", peer.c_str());
    text += "\n";
    for (const CaseResult& one : result.cases) {
        append(text, "%-24s %-8s %10.2f %5.0f%%", one.name.c_str(),
               one.served ? "whet" : "original", one.whet_us, 100 * one.bound_share());
        for (const std::string& peer : peers) {
            const auto found = one.peers.find(peer);
            if (found == one.peers.end())
                append(text, "  %13s  %-22s", "-", "");
            else
                append(text, "  %13.2f  %.3f [%.3f, %.3f]  ", found->second.us,
                       found->second.ratio.ratio, found->second.ratio.low,
                       found->second.ratio.high);
        }
        if (!one.served && !one.reason.empty()) text += "  " + one.reason;
        if (!one.control_holds) text += "  self-control misses 1";
        text += "\n";
    }
    for (const std::string& peer : peers) {
        append(text, "\ngeomean of %s time / Whet time (above 1: Whet is faster)\n", peer.c_str());
        const auto means = result.geomeans(peer);
        for (const auto& [name, mean] : means)
            if (name != "all")
                append(text, "  %-72s %.3f [%.3f, %.3f]\n", name.c_str(), mean.ratio, mean.low,
                       mean.high);
        const auto all = means.find("all");
        if (all != means.end())
            append(text, "  %-72s %.3f [%.3f, %.3f]\n", "all", all->second.ratio, all->second.low,
                   all->second.high);
    }
    const Interval control = result.control();
    append(text, "\nself-control %.3f [%.3f, %.3f]; peak %.1f GFLOP/s, stream %.1f GB/s (%s)\n",
           control.ratio, control.low, control.high, result.machine.peak_gflops,
           result.machine.stream_gbs, result.machine.isa.c_str());
    return text;
}

bool write_json(const std::string& path, const json& document) {
    if (path.empty()) return true;
    const std::string aside = path + ".part" + std::to_string(getpid());
    {
        std::ofstream file(aside);
        file << document.dump(2) << "\n";
        if (!file.good()) return false;
    }
    return std::rename(aside.c_str(), path.c_str()) == 0;
}

}  // namespace whet::bench
