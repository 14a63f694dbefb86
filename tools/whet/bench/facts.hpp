// SPDX-License-Identifier: Apache-2.0
// What Whet's own report says, as numbers.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "tools/whet/bench/case.hpp"

namespace whet::bench {

/// What the report says of a case; empty where it doesn't know it.
struct SiteFacts {
    std::string schedule;  ///< of the plan that serves, as text
    std::string reason;    ///< why it is served as it is
};
SiteFacts facts_of(const Case& one);

/// What the forge did so far.
struct ForgeFacts {
    int64_t pid = 0;  ///< of the helper; 0: it is a thread of this process, or there is none
    int64_t trials = 0, trials_without_compile = 0, compiles = 0, published = 0;
    double cpu_seconds = 0, forge_cpu_seconds = 0;  ///< of all tuning; of the forge alone
    double build_ms_p50 = 0, build_ms_p95 = 0;
};
ForgeFacts forge_facts();

/// whet_report("json"), parsed; an empty object when there is none.
nlohmann::json report_json();

}  // namespace whet::bench
