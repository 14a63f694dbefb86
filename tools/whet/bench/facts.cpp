// SPDX-License-Identifier: Apache-2.0
#include "tools/whet/bench/facts.hpp"

#include <whet/whet.h>

namespace whet::bench {
namespace {

void append_text(const char* text, size_t length, void* user) { static_cast<std::string*>(user)->append(text, length); }

}  // namespace

nlohmann::json report_json() {
    std::string text;
    if (whet_report("json", append_text, &text) != WHET_OK) return nlohmann::json::object();
    nlohmann::json document = nlohmann::json::parse(text, nullptr, false);
    return document.is_object() ? document : nlohmann::json::object();
}

SiteFacts facts_of(const Case&) { return {}; }

ForgeFacts forge_facts() {
    const nlohmann::json report = report_json();
    ForgeFacts facts;
    facts.trials = report.value("trials", int64_t{0});
    return facts;
}

}  // namespace whet::bench
