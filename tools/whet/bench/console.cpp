// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cstdio>
#include <string>

#include <nlohmann/json.hpp>

#include "tools/whet/bench/options.hpp"
#include "tools/whet/bench/result.hpp"

namespace whet::bench {
namespace {

constexpr size_t kLineWidth = 79;  // of a terminal that says nothing about itself

}  // namespace

void show_progress(const std::string& line) {
    static const bool terminal = isatty(STDERR_FILENO) == 1;
    if (!terminal) return;
    std::fprintf(stderr, "\r\033[K%s", line.substr(0, kLineWidth).c_str());
    std::fflush(stderr);
}

void complain(const std::string& text) {
    show_progress("");
    std::fprintf(stderr, "whet bench: %s\n", text.c_str());
}

int finish_flat(const Options& options, const std::string& json_text) {
    show_progress("");
    const nlohmann::json document = nlohmann::json::parse(json_text);
    for (const auto& [name, value] : document.items())
        std::printf("%-24s %s\n", name.c_str(), value.dump().c_str());
    if (write_json(options.json, document)) return kDone;
    complain("cannot write " + options.json);
    return kFailed;
}

}  // namespace whet::bench
