// SPDX-License-Identifier: Apache-2.0
// What Whet's own report says, as numbers.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "tools/whet/bench/case.hpp"

namespace whet::bench {

/// What became of one site.
struct SiteFacts {
    std::string schedule;   ///< as text; empty: the original serves
    std::string reason;     ///< why it is served as it is; may be empty
    int64_t trials = 0, compiles = 0;
};
SiteFacts facts_of(const Case& one);

/// What the forge did so far.
struct ForgeFacts {
    int64_t pid = 0;        ///< of the helper; 0: it is a thread of this process, or there is none
    int64_t trials = 0, trials_without_compile = 0, compiles = 0;
    double cpu_seconds = 0;
    double build_ms_p50 = 0, build_ms_p95 = 0;
    bool idle = false;      ///< every site is settled
};
ForgeFacts forge_facts();

/// whet_report("json"), parsed; an empty object when there is none.
nlohmann::json report_json();

}  // namespace whet::bench
