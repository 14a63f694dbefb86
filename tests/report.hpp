// SPDX-License-Identifier: Apache-2.0
// The report of this process, for tests that read it.
#pragma once

#include <string>

#include <whet/whet.h>

namespace whet::test {

inline std::string report() {
    std::string text;
    whet_report(
        "json",
        [](const char* part, size_t length, void* user) {
            static_cast<std::string*>(user)->append(part, length);
        },
        &text);
    return text;
}

}  // namespace whet::test
