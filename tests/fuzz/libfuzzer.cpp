// SPDX-License-Identifier: Apache-2.0
// The same targets under libFuzzer (clang builds): the first byte chooses one.
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/targets.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const auto all = whet::fuzz::targets();
    if (size == 0) return 0;
    const whet::fuzz::Target& target = all[data[0] % all.size()];
    const std::string broken = target.run(data + 1, size - 1).broken;
    if (broken.empty()) return 0;
    std::fprintf(stderr, "%s: %s\n", target.name, broken.c_str());
    std::abort();
}
