// SPDX-License-Identifier: Apache-2.0
// `whet bench shapes`: a program that meets more and more distinct shapes. What they cost it, early
// (after a fifth of them) and late (after all): private memory, a hit, a call beyond the budget.
//
// The original does nothing, so that a call is dispatch and nothing else, and tuning is paused: the
// plans of those that are tuned are bounded by budgets of their own. A look-up that finds no room is
// followed by a direct call, as an integration does.
//   hit     whet_site_get and whet_site_call, in turn over shapes that have a site
//   beyond  the same over shapes met after WHET_BUDGET_SITES was used up
#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tools/whet/bench/case.hpp"
#include "tools/whet/bench/facts.hpp"
#include "tools/whet/bench/live_site.hpp"
#include "tools/whet/bench/machine.hpp"
#include "tools/whet/bench/options.hpp"
#include "tools/whet/bench/statistics.hpp"
#include "tools/whet/bench/timing.hpp"

namespace whet::bench {
namespace {

constexpr int64_t kEarlyPart = 5;      // the first look comes after one in so many shapes
constexpr int64_t kInTurn = 256;       // shapes of a hit: more than any thread's front holds
constexpr double kSeconds = 0.5;       // for each number
constexpr int64_t kCallsPerShape = 3;  // while shapes are met

void nothing(void*) {}

whet_op shape(int64_t index) {
    Case one;
    one.op = one.name = "gemm";
    one.shape.op = BENCH_GEMM;
    one.shape.groups = 1;
    one.shape.m = 1 + index % 64;
    one.shape.k = 16 + index / 64 % 64;
    one.shape.n = 16 + index / 4096;
    whet_op op{};
    describe(one, false, &op);
    return op;
}

/// False: there is no room for a site, and the original was called.
bool call(const whet_op& op) {
    static float data[1];
    void* operands[3] = {data, data, data};
    whet_site* site = nullptr;
    if (whet_site_get(&op, &site) == WHET_OK) {
        whet_site_call(site, operands, 3, nothing, nullptr);
        return true;
    }
    nothing(nullptr);
    return false;
}

double call_ns(const std::vector<whet_op>& ops) {
    size_t at = 0;
    return time_alone_ns(
        [&](int64_t calls) {
            for (int64_t i = 0; i < calls; ++i) {
                call(ops[at]);
                at = at + 1 < ops.size() ? at + 1 : 0;
            }
        },
        [] {}, kSeconds);
}

/// Bytes that are this process's own, as the kernel counts them.
int64_t private_bytes() {
    std::ifstream file("/proc/self/smaps_rollup");
    for (std::string line; std::getline(file, line);) {
        constexpr const char* kKey = "Private_Dirty:";
        if (line.rfind(kKey, 0) == 0) return std::stoll(line.substr(std::string(kKey).size())) << 10;
    }
    return 0;
}

struct Look {
    double hit_ns = 0, beyond_ns = 0;
    int64_t private_bytes = 0;
};

Look look(const std::vector<whet_op>& known, const std::vector<whet_op>& beyond) {
    whet_drain(0);
    report_json();  // what a report needs once, it has from the first look on
    const int64_t bytes = private_bytes();
    return {call_ns(known), call_ns(beyond), bytes};
}

}  // namespace

int bench_shapes(const Options& options) {
    whet_pause();
    const int64_t early = std::max<int64_t>(options.shapes / kEarlyPart, kInTurn);
    std::vector<whet_op> known, beyond;
    for (int64_t i = 0; i < kInTurn; ++i) {
        known.push_back(shape(i * early / kInTurn / 2));
        beyond.push_back(shape(options.shapes + i));  // met between the looks of the first kind
    }
    for (const whet_op& op : known) {
        if (!call(op)) {
            complain(std::string("no site: ") + whet_last_error());
            return kFailed;
        }
    }
    Look looks[2];
    int64_t with_site = 0, next = 0;
    for (int number = 0; number < 2; ++number) {
        const int64_t until = number == 0 ? early : options.shapes;
        for (; next < until && !stop_requested(); ++next) {
            const whet_op op = shape(next);
            bool has_site = false;
            for (int64_t i = 0; i < kCallsPerShape; ++i) has_site = call(op);
            with_site += has_site;
            if (next % 1000 == 0)
                show_progress(std::to_string(next) + " of " + std::to_string(options.shapes) +
                              " shapes");
        }
        if (stop_requested()) return kFailed;
        looks[number] = look(known, beyond);
    }
    const nlohmann::json document{
        {"shapes", options.shapes},
        {"shapes_early", early},
        {"sites", with_site},
        {"private_mib_early", static_cast<double>(looks[0].private_bytes) / (1 << 20)},
        {"private_mib_late", static_cast<double>(looks[1].private_bytes) / (1 << 20)},
        {"growth_mib",
         static_cast<double>(looks[1].private_bytes - looks[0].private_bytes) / (1 << 20)},
        {"hit_ns_early", looks[0].hit_ns},
        {"hit_ns_late", looks[1].hit_ns},
        {"hit_ratio", looks[1].hit_ns / std::max(looks[0].hit_ns, 0.1)},
        {"beyond_ns_early", looks[0].beyond_ns},
        {"beyond_ns_late", looks[1].beyond_ns}};
    return finish_flat(options, document.dump());
}

}  // namespace whet::bench
