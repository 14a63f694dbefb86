// SPDX-License-Identifier: Apache-2.0
// Tests of the variable table: values, warnings, the generated page.
#include "base/env.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

namespace whet::base {
namespace {

struct Loaded {
    Options options;
    std::vector<std::string> warnings;
};

Loaded load(std::vector<const char*> entries, std::span<const std::string_view> policies = {}) {
    entries.push_back(nullptr);
    Loaded loaded;
    loaded.options = load_options(entries.data(), loaded.warnings, policies);
    return loaded;
}

TEST(Env, DefaultsStandWithoutVariables) {
    const auto [options, warnings] = load({"HOME=/home/someone", "PATH=/bin"});
    EXPECT_TRUE(warnings.empty());
    EXPECT_TRUE(options.enable);
    EXPECT_EQ(options.tune, Tune::on);
    EXPECT_EQ(options.numerics, Numerics::consistent);
    EXPECT_EQ(options.forge, ForgeMode::automatic);
    EXPECT_FALSE(options.budget_cpu.has_value());
    EXPECT_EQ(options.budget_code_bytes, 16 << 20);
    EXPECT_EQ(options.budget_sites, 4096);
    EXPECT_EQ(options.store_path, "/home/someone/.cache/whet/store.db");
    EXPECT_EQ(load_options(nullptr, const_cast<std::vector<std::string>&>(warnings)).store_path,
              "");
}

TEST(Env, ReadsEveryKindOfValue) {
    const auto [options, warnings] = load({"WHET_ENABLE=0",
                                           "WHET_TUNE=observe",
                                           "WHET_NUMERICS=strict",
                                           "WHET_FORGE=thread",
                                           "WHET_ISA=avx2",
                                           "WHET_BUDGET_CPU=0.5",
                                           "WHET_BUDGET_SECONDS=12.5",
                                           "WHET_BUDGET_TRIALS=100",
                                           "WHET_BUDGET_MEMORY=1G",
                                           "WHET_BUDGET_CODE=512K",
                                           "WHET_BUDGET_SITES=10",
                                           "WHET_STORE=/tmp/a.db",
                                           "WHET_FORCE=reference",
                                           "WHET_SEED=18446744073709551615",
                                           "WHET_CHECKED=1",
                                           "WHET_PIN=1",
                                           "WHET_TEST_HOOKS=1",
                                           "WHET_POLICY=random",
                                           "WHET_LOG=info",
                                           "WHET_DUMP="});
    EXPECT_TRUE(warnings.empty()) << warnings.front();
    EXPECT_FALSE(options.enable);
    EXPECT_EQ(options.tune, Tune::observe);
    EXPECT_EQ(options.numerics, Numerics::strict);
    EXPECT_EQ(options.forge, ForgeMode::thread);
    EXPECT_EQ(options.isa, IsaLimit::avx2);
    EXPECT_EQ(options.budget_cpu, 0.5);
    EXPECT_EQ(options.budget_seconds, 12.5);
    EXPECT_EQ(options.budget_trials, 100);
    EXPECT_EQ(options.budget_memory_bytes, 1ll << 30);
    EXPECT_EQ(options.budget_code_bytes, 512 << 10);
    EXPECT_EQ(options.budget_sites, 10);
    EXPECT_EQ(options.store_path, "/tmp/a.db");
    EXPECT_EQ(options.seed, ~std::uint64_t{0});
    EXPECT_TRUE(options.checked && options.pin && options.test_hooks);
    EXPECT_EQ(options.policy, "random");
}

struct BadValue {
    const char* name;
    const char* entry;
};

class EnvBadValue : public testing::TestWithParam<BadValue> {};

TEST_P(EnvBadValue, WarnsOnceAndKeepsTheDefault) {
    constexpr std::string_view kPolicies[] = {"random", "evolution"};
    const auto [options, warnings] = load({"HOME=/h", GetParam().entry}, kPolicies);
    ASSERT_EQ(warnings.size(), 1u);
    const std::string entry = GetParam().entry;
    EXPECT_NE(warnings[0].find(entry.substr(0, entry.find('='))), std::string::npos) << warnings[0];
    EXPECT_EQ(warnings[0].find('\n'), std::string::npos);
    EXPECT_TRUE(options.enable);
    EXPECT_EQ(options.numerics, Numerics::consistent);
    EXPECT_EQ(options.store_path, "/h/.cache/whet/store.db");
    EXPECT_EQ(options.policy, "auto");
    EXPECT_FALSE(options.budget_cpu.has_value());
    EXPECT_FALSE(options.perf);
}

INSTANTIATE_TEST_SUITE_P(Table, EnvBadValue,
                         testing::Values(BadValue{"UnknownName", "WHET_ENABEL=1"},
                                         BadValue{"BooleanWord", "WHET_ENABLE=yes"},
                                         BadValue{"UnknownChoice", "WHET_NUMERICS=fast"},
                                         BadValue{"UnbuiltNumerics", "WHET_NUMERICS=relaxed"},
                                         BadValue{"PerfWord", "WHET_PERF=on"},
                                         BadValue{"UnbuiltStore", "WHET_STORE=redis://host"},
                                         BadValue{"UnknownPolicy", "WHET_POLICY=oracle"},
                                         BadValue{"NegativeShare", "WHET_BUDGET_CPU=-1"},
                                         BadValue{"NotANumber", "WHET_BUDGET_CPU=nan"},
                                         BadValue{"TrailingText", "WHET_BUDGET_TRIALS=12x"},
                                         BadValue{"OverflowingBytes",
                                                  "WHET_BUDGET_CODE=99999999999G"},
                                         BadValue{"NoSites", "WHET_BUDGET_SITES=0"},
                                         BadValue{"UnknownIsa", "WHET_ISA=sse2"}),
                         [](const auto& info) { return info.param.name; });

TEST(Env, NamesAreUniqueAndDescribed) {
    std::set<std::string_view> names;
    for (const Variable& variable : kVariables) {
        EXPECT_TRUE(names.insert(variable.name).second) << variable.name;
        EXPECT_TRUE(variable.name.starts_with("WHET_"));
        EXPECT_TRUE(variable.sentence.ends_with(".")) << variable.name;
    }
}

TEST(Env, EveryVariableIsRead) {
    // A value that no variable accepts as it is, and that text variables keep: each row must react.
    for (const Variable& variable : kVariables) {
        const std::string entry = std::string(variable.name) + "=<none>";
        const auto [options, warnings] = load({entry.c_str()});
        const std::string absolute = (std::filesystem::current_path() / "<none>").string();
        const bool kept = options.store_path == absolute || options.policy == "<none>" ||
                          options.force == "<none>" || options.log == "<none>" ||
                          options.log_file == "<none>" || options.dump_directory == absolute ||
                          options.control_path == "<none>";
        EXPECT_TRUE(kept || warnings.size() == 1) << variable.name;
    }
}

TEST(Env, PageIsCurrent) {
    std::ifstream file("docs/env.md");
    ASSERT_TRUE(file) << "run from the project's root";
    const std::string page{std::istreambuf_iterator<char>(file), {}};
    EXPECT_EQ(page, environment_page()) << "run: make docs";
}

TEST(ParseBytes, ReadsUnits) {
    EXPECT_EQ(parse_bytes("0"), 0);
    EXPECT_EQ(parse_bytes("4096"), 4096);
    EXPECT_EQ(parse_bytes("3k"), 3072);
    EXPECT_EQ(parse_bytes("2G"), 2ll << 30);
    for (const char* text : {"", "K", "-1", "1.5M", "1T", " 1", "9223372036854775807K"}) {
        EXPECT_FALSE(parse_bytes(text).has_value()) << text;
    }
}

}  // namespace
}  // namespace whet::base
