// SPDX-License-Identifier: Apache-2.0
// A C++ program outside the tree: errors are values, the report is text.
#include <whet/whet.h>

#include <cstring>
#include <string>

int main() {
    whet_op op{};
    if (whet_op_softmax(&op, nullptr, nullptr) != WHET_INVALID_ARGUMENT || !*whet_last_error()) return 1;
    std::string text;
    const auto append = [](const char* part, size_t length, void* user) {
        static_cast<std::string*>(user)->append(part, length);
    };
    if (whet_report("json", append, &text) != WHET_OK || text.empty() || text.front() != '{') return 2;
    return std::strncmp(whet_version(), "0.1.", 4) == 0 ? 0 : 3;
}
