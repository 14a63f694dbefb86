// SPDX-License-Identifier: Apache-2.0
// The registry of policies: an explicit, ordered table.
#include "policy/bandit/bandit_policy.hpp"
#include "policy/policy.hpp"

#include <string>

namespace whet::policy {
namespace {

constexpr PolicyEntry kPolicies[] = {
    {"bandit", "sliding-window UCB over sites and sketches, analytical draft, local descent",
     make_bandit_policy},
    {"random", "round robin over sites, random legal points: the baseline of ablations",
     make_random_policy},
};

}  // namespace

std::span<const PolicyEntry> policies() { return kPolicies; }

base::Result<std::unique_ptr<Policy>> make_policy(std::string_view name, uint64_t seed) {
    if (name.empty() || name == "auto") return kPolicies[0].make(seed);
    std::string known = "auto";
    for (const PolicyEntry& entry : kPolicies) {
        if (entry.name == name) return entry.make(seed);
        known += ", ";
        known += entry.name;
    }
    return base::make_error(base::Code::invalid_argument,
                            "policy '%s' is not known, expected one of %s",
                            std::string(name).c_str(), known.c_str());
}

}  // namespace whet::policy
