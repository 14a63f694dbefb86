// SPDX-License-Identifier: Apache-2.0
// Tests of printed reports: the Prometheus text is read back by a strict parser.
#include "runtime/report/report.hpp"

#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>

namespace whet::runtime {
namespace {

using Labels = std::map<std::string, std::string>;
struct Sample {
    Labels labels;
    double value;
};
struct Family {
    std::string type;
    std::vector<Sample> samples;
};

/// Reads the text exposition format as strictly as its definition: every family has HELP, then
/// TYPE, then all of its samples; no series comes twice; counters end in _total.
class Parser {
public:
    /// Returns what is wrong, or an empty string.
    std::string parse(const std::string& text) {
        if (text.empty() || text.back() != '\n') return "the last line does not end";
        std::istringstream lines(text);
        for (std::string line; std::getline(lines, line);) {
            line_ = line;
            at_ = 0;
            const std::string wrong = line.starts_with("# ") ? comment() : sample();
            if (!wrong.empty()) return wrong + ": " + line;
        }
        return {};
    }
    std::map<std::string, Family> families;

private:
    std::string comment() {
        std::istringstream words(line_);
        std::string hash, kind, name, rest;
        words >> hash >> kind >> name;
        std::getline(words, rest);
        if (!is_name(name)) return "not a name";
        if (kind == "HELP") {
            if (families.contains(name)) return "a family twice";
            if (rest.size() < 2) return "no help";
            helped_ = name;
            return {};
        }
        if (kind != "TYPE" || name != helped_ || families.contains(name))
            return "TYPE out of order";
        if (rest != " counter" && rest != " gauge") return "not a type";
        if (rest == " counter" && !name.ends_with("_total")) return "a counter without _total";
        if (rest == " gauge" && name.ends_with("_total")) return "a gauge with _total";
        families[name].type = rest.substr(1);
        open_ = name;
        return {};
    }

    std::string sample() {
        const std::string name = word();
        if (name != open_) return "a sample outside its family";
        Sample sample;
        if (peek() == '{') {
            if (!labels(sample.labels)) return "not labels";
        }
        if (peek() != ' ') return "no space before the value";
        const char* const begin = line_.c_str() + at_ + 1;
        char* end = nullptr;
        sample.value = std::strtod(begin, &end);
        if (end == begin || *end != '\0' || std::isspace(static_cast<unsigned char>(*begin)))
            return "not a value";
        if (families[name].type == "counter" && !(sample.value >= 0)) return "a negative counter";
        if (!seen_.insert({name, sample.labels}).second) return "a series twice";
        families[name].samples.push_back(sample);
        return {};
    }

    bool labels(Labels& into) {
        do {
            ++at_;
            const std::string name = word();
            if (!is_name(name) || name.starts_with("whet_") || into.contains(name)) return false;
            if (peek() != '=' || line_[at_ + 1] != '"') return false;
            at_ += 2;
            std::string value;
            for (; peek() != '"'; ++at_) {
                if (peek() == '\0') return false;
                if (peek() != '\\') {
                    value += peek();
                    continue;
                }
                ++at_;
                if (peek() != 'n' && peek() != '"' && peek() != '\\') return false;
                value += peek() == 'n' ? '\n' : peek();
            }
            ++at_;
            into[name] = value;
        } while (peek() == ',');
        return line_[at_++] == '}';
    }

    char peek() const { return at_ < line_.size() ? line_[at_] : '\0'; }
    std::string word() {
        const size_t begin = at_;
        while (std::isalnum(static_cast<unsigned char>(peek())) || peek() == '_') ++at_;
        return line_.substr(begin, at_ - begin);
    }
    static bool is_name(const std::string& name) {
        if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) return false;
        for (const char c : name) {
            if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') return false;
        }
        return true;
    }

    std::string line_, helped_, open_;
    size_t at_ = 0;
    std::set<std::pair<std::string, Labels>> seen_;
};

Report example(size_t sites) {
    Report report;
    report.version = "1.2.3";
    report.isa = "avx2";
    report.numerics = "consistent";
    report.trials = 1203;
    report.rejected_static = 4;
    report.rejected_wrong = 5;
    report.rejected_crashed = 6;
    report.rejected_slow = 7;
    report.bypassed_threads = 9;
    report.forge_cpu_seconds = 13.75;
    report.program_cpu_seconds = 0.5;
    report.code_bytes = 1ull << 40;
    for (size_t i = 0; i < sites; ++i) {
        ReportRow row;
        row.id = 0xab00 + i;
        row.op = "matmul m=" + std::to_string(i) + " k=3 n=5";
        row.calls = 1000 + i;
        row.served_by_whet = i % 2 == 0;
        row.served_calls = row.served_by_whet ? 900 : 0;
        row.before_us = 20;
        row.now_us = i % 2 == 0 ? 12.5 : 0;
        report.rows.push_back(row);
    }
    return report;
}

std::map<std::string, Family> parsed(const Report& report) {
    const auto text = print_report(report, "prometheus");
    EXPECT_TRUE(text.has_value());
    Parser parser;
    EXPECT_EQ(parser.parse(*text), "");
    return parser.families;
}

double value(std::map<std::string, Family>& families, const std::string& name,
             const Labels& labels = {}) {
    for (const Sample& sample : families[name].samples) {
        if (sample.labels == labels) return sample.value;
    }
    ADD_FAILURE() << "no " << name;
    return -1;
}

TEST(Prometheus, ValuesAreTheReports) {
    auto families = parsed(example(2));
    const struct {
        const char* name;
        Labels labels;
        double expected;
    } kCases[] = {
        {"whet_info", {{"version", "1.2.3"}, {"isa", "avx2"}, {"numerics", "consistent"}}, 1},
        {"whet_sites", {}, 2},
        {"whet_calls_total", {}, 2001},
        {"whet_served_calls_total", {}, 900},
        {"whet_trials_total", {}, 1203},
        {"whet_rejected_total", {{"reason", "static"}}, 4},
        {"whet_rejected_total", {{"reason", "wrong"}}, 5},
        {"whet_rejected_total", {{"reason", "crashed"}}, 6},
        {"whet_rejected_total", {{"reason", "slow"}}, 7},
        {"whet_bypassed_calls_total", {{"reason", "threads"}}, 9},
        {"whet_tuning_cpu_seconds_total", {{"place", "forge"}}, 13.75},
        {"whet_tuning_cpu_seconds_total", {{"place", "program"}}, 0.5},
        {"whet_code_bytes", {}, 1099511627776},
        {"whet_saved_seconds", {}, 900 * 7.5e-6},
    };
    for (const auto& one : kCases)
        EXPECT_DOUBLE_EQ(value(families, one.name, one.labels), one.expected) << one.name;
    const Labels first = {{"site", "000000000000ab00"}, {"op", "matmul m=0 k=3 n=5"}};
    EXPECT_DOUBLE_EQ(value(families, "whet_site_calls_total", first), 1000);
    EXPECT_DOUBLE_EQ(value(families, "whet_site_served", first), 1);
    EXPECT_DOUBLE_EQ(value(families, "whet_site_before_seconds", first), 20e-6);
    EXPECT_DOUBLE_EQ(value(families, "whet_site_now_seconds", first), 12.5e-6);
    EXPECT_EQ(families["whet_site_now_seconds"].samples.size(), 1u) << "unknown is left out";
    EXPECT_TRUE(families["whet_site_bound_seconds"].samples.empty());
}

TEST(Prometheus, LabelsAreEscapedAndBounded) {
    const struct {
        const char* name;
        std::string op, expected;
    } kCases[] = {
        {"quotes", "a\"b\\c\nd", "a\"b\\c\nd"},
        {"braces", "x{y=\"1\",z} 3 # TYPE", "x{y=\"1\",z} 3 # TYPE"},
        {"empty", "", ""},
        {"long", std::string(500, 'x'), std::string(kMaxLabelBytes, 'x')},
        {"long escapes", std::string(500, '"'), std::string(kMaxLabelBytes, '"')},
        {"cut between characters", std::string(kMaxLabelBytes - 1, 'x') + "\xc3\xa4",
         std::string(kMaxLabelBytes - 1, 'x')},
    };
    for (const auto& one : kCases) {
        Report report = example(1);
        report.rows[0].op = one.op;
        auto families = parsed(report);
        ASSERT_EQ(families["whet_site_calls_total"].samples.size(), 1u) << one.name;
        EXPECT_EQ(families["whet_site_calls_total"].samples[0].labels["op"], one.expected)
            << one.name;
    }
}

TEST(Prometheus, ManySitesKeepTheirSumAndFewSeries) {
    for (const size_t sites :
         {size_t{0}, kMaxSiteSeries - 1, kMaxSiteSeries, kMaxSiteSeries + 1, size_t{5000}}) {
        auto families = parsed(example(sites));
        EXPECT_EQ(families["whet_site_calls_total"].samples.size(),
                  std::min(sites, kMaxSiteSeries));
        EXPECT_EQ(value(families, "whet_sites"), static_cast<double>(sites));
        EXPECT_EQ(value(families, "whet_calls_total"),
                  static_cast<double>(1000 * sites + (sites ? sites * (sites - 1) / 2 : 0)));
    }
}

TEST(Report, UnknownFormatIsRefused) {
    EXPECT_EQ(print_report({}, "xml").error().code, base::Code::invalid_argument);
}

TEST(Report, JsonHoldsAGainOnlyWithAnInterval) {
    Report report = example(1);
    EXPECT_EQ(print_report(report, "json")->find("\"gain\""), std::string::npos);
    report.rows[0].gain = 1.6;
    report.rows[0].gain_low = 1.5;
    report.rows[0].gain_high = 1.75;
    EXPECT_NE(print_report(report, "json")
                  ->find("\"gain\": {\"ratio\": 1.6, \"low\": 1.5, \"high\": 1.75}"),
              std::string::npos);
}

}  // namespace
}  // namespace whet::runtime
