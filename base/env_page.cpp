// SPDX-License-Identifier: Apache-2.0
// Prints docs/env.md.
#include <cstdio>

#include "base/env.hpp"

int main() { std::fputs(whet::base::environment_page().c_str(), stdout); }
