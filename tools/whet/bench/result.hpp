// SPDX-License-Identifier: Apache-2.0
// The result of a comparison over suites: as JSON, and as a table for people.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tools/whet/bench/machine.hpp"
#include "tools/whet/bench/statistics.hpp"

namespace whet::bench {

struct PeerResult {
    double us = 0;
    Interval ratio;  ///< peer time / Whet time
};

struct CaseResult {
    std::string suite, name, op, family;
    bool served = false;  ///< by Whet's plan; else by the original
    double whet_us = 0, bound_us = 0;
    std::map<std::string, PeerResult> peers;
    Interval control;              ///< Whet against itself
    bool control_holds = true;     ///< after the repetitions
    std::string schedule, reason;  ///< of the plan; why the case is served as it is
    int64_t trials = 0, compiles = 0;
    double tune_seconds = 0;

    double bound_share() const { return whet_us > 0 ? bound_us / whet_us : 0; }
    /// Below a microsecond a case is not part of any geomean.
    bool counts() const { return whet_us >= 1.0; }
};

struct Result {
    Machine machine;
    nlohmann::json settings = nlohmann::json::object();
    std::vector<CaseResult> cases;

    Interval control() const;
    /// "all" and each family -> geomean over the cases that have this peer.
    std::map<std::string, Interval> geomeans(const std::string& peer) const;
    std::vector<std::string> peer_names() const;
};

nlohmann::json to_json(const Interval& interval);
nlohmann::json to_json(const Result& result);
/// Reads the cases of an earlier result (for --resume); a file that is none gives no cases.
std::vector<CaseResult> read_cases(const std::string& path);

/// The table of cases and geomeans, for standard output.
std::string table_of(const Result& result);

/// Writes aside, then renames. False: could not (errno says why). An empty path: nothing to do.
bool write_json(const std::string& path, const nlohmann::json& document);

}  // namespace whet::bench
