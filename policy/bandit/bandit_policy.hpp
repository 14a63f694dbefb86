// SPDX-License-Identifier: Apache-2.0
// The default policy: bandits choose the site and the sketch, local descent chooses the parameters.
#pragma once

#include <cstdint>
#include <memory>

#include "policy/policy.hpp"

namespace whet::policy {

/// SW-UCB over tasks and, in each task, over sketches (HARL, ICPP 2022, sections 4.1 and 4.2), then
/// LocalDescent. A task's reward is Ansor's gradient estimate (OSDI 2020, section 6, equation 1)
/// weighted by the live profile: its share of the program's time, times the relative gain of the
/// last round and what may still be left down to its bound.
std::unique_ptr<Policy> make_bandit_policy(uint64_t seed);

/// Round robin over tasks and sketches, random walks for points.
std::unique_ptr<Policy> make_random_policy(uint64_t seed);

}  // namespace whet::policy
