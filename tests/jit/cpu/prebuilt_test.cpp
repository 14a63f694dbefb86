// SPDX-License-Identifier: Apache-2.0
// The file of microkernels made at build time: whole, equal to a fresh compile, and refused when
// damaged.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <set>

#include "harness.hpp"
#include "jit/cpu/prebuilt.hpp"
#include "jit/cpu/prebuilt_list.hpp"

namespace whet::jit::cpu {
namespace {

std::string installed() { return library_directory() + "/" + kPrebuiltFile; }

std::vector<char> contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST(PrebuiltList, NamesEachSpecOnceAndAllAreLegal) {
    std::set<std::string> texts;
    for (const MicrokernelSpec& spec : prebuilt_specs()) {
        EXPECT_TRUE(spec.check()) << spec.print();
        EXPECT_TRUE(texts.insert(spec.print()).second) << spec.print();
        EXPECT_TRUE(MicrokernelSpec::parse(spec.print())) << spec.print();
    }
}

TEST(Prebuilt, HoldsTheWholeListOnAlignedAddresses) {
    const auto prebuilt = Prebuilt::open(installed());
    ASSERT_TRUE(prebuilt) << prebuilt.error().message;
    EXPECT_EQ(prebuilt->size(), prebuilt_specs().size());
    for (const MicrokernelSpec& spec : prebuilt_specs()) {
        const auto view = prebuilt->find(spec);
        ASSERT_TRUE(view) << spec.print();
        EXPECT_EQ(reinterpret_cast<uintptr_t>(view->bytes.data()) % 64, 0u);
        EXPECT_LE(view->text_bytes, view->bytes.size());
    }
    EXPECT_FALSE(prebuilt->find({.isa = Isa::portable}));
}

TEST(Prebuilt, EqualsAFreshCompile) {
    const auto prebuilt = Prebuilt::open(installed());
    ASSERT_TRUE(prebuilt);
    Compiler* compiler = test_compiler();
    ASSERT_NE(compiler, nullptr);
    const auto specs = prebuilt_specs();
    for (std::size_t i = 0; i < specs.size(); i += 17) {
        const auto stored = prebuilt->copy(specs[i]);
        const auto fresh = compiler->compile(specs[i]);
        ASSERT_TRUE(stored && fresh);
        EXPECT_EQ(stored->bytes, fresh->bytes) << specs[i].print();
        EXPECT_EQ(stored->entry, fresh->entry);
    }
}

TEST(Prebuilt, RefusesADamagedFile) {
    const std::vector<char> good = contents(installed());
    ASSERT_GT(good.size(), 1000u);
    const std::string path = testing::TempDir() + "whet_prebuilt_test.bin";
    auto opens = [&](const std::vector<char>& bytes) {
        std::ofstream(path, std::ios::binary)
            .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
        return Prebuilt::open(path).has_value();
    };
    EXPECT_TRUE(opens(good));
    for (const std::size_t at :
         {std::size_t{0}, std::size_t{9}, std::size_t{40}, good.size() / 2, good.size() - 1}) {
        std::vector<char> damaged = good;
        damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
        EXPECT_FALSE(opens(damaged)) << "byte " << at;
    }
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{10}, good.size() / 2, good.size() - 64}) {
        EXPECT_FALSE(opens({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)}))
            << "size " << size;
    }
    std::remove(path.c_str());
    EXPECT_FALSE(Prebuilt::open(path));
}

TEST(WritePrebuilt, RefusesOneSpecTwice) {
    const Blob blob = {{.isa = Isa::avx2}, {0xc3}, 0, 1};
    const auto written =
        write_prebuilt(testing::TempDir() + "whet_prebuilt_twice.bin", {blob, blob});
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().code, base::Code::invalid_argument);
}

}  // namespace
}  // namespace whet::jit::cpu
