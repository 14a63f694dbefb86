// SPDX-License-Identifier: Apache-2.0
// A C++ program outside the tree: errors are values, the report is text.
#include <whet/whet.hpp>

#include <cstring>
#include <string>

int main() {
    whet_op op{};
    if (whet_op_softmax(&op, nullptr, nullptr) != WHET_INVALID_ARGUMENT || !*whet_last_error())
        return 1;
    const std::string text = whet::report("json");
    if (text.empty() || text.front() != '{') return 2;
    if (!whet::report("no such format").empty() || whet::last_error().empty()) return 4;
    return std::strncmp(whet_version(), "0.1.", 4) == 0 ? 0 : 3;
}
