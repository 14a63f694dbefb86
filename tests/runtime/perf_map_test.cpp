// SPDX-License-Identifier: Apache-2.0
// Tests of the perf map: addresses of published code resolve, and nothing but the map is written.
#include "runtime/code_slab/perf_map.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

#include "runtime/code_slab/code_slab.hpp"

namespace whet::runtime {
namespace {

struct Line {
    uintptr_t begin = 0, bytes = 0;
    std::string name;
};

std::string contents(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

/// As perf reads it: two hexadecimal numbers, then a name to the end of the line.
std::vector<Line> lines_of(const std::string& path) {
    std::ifstream file(path);
    std::vector<Line> lines;
    for (Line line; file >> std::hex >> line.begin >> line.bytes && std::getline(file, line.name);)
        lines.push_back(line);
    EXPECT_TRUE(file.eof()) << "a line that perf cannot read";
    return lines;
}

std::string name_at(const std::string& path, const void* address) {
    const auto at = reinterpret_cast<uintptr_t>(address);
    for (const Line& line : lines_of(path)) {
        if (at >= line.begin && at < line.begin + line.bytes) return line.name.substr(1);
    }
    return "";
}

/// Code that returns at once and differs by `tag`.
jit::Blob code_of(uint8_t tag) {
    jit::Blob blob;
    blob.bytes = {0x90, 0xc3, tag, tag};  // nop, ret
    blob.text_bytes = 2;
    blob.entry = 1;
    return blob;
}

/// Published code stays; so do the slabs, as in a program.
CodeSlab& new_slab() {
    static auto& all = *new std::vector<CodeSlab*>;
    all.push_back(new CodeSlab(1 << 20, true));
    return *all.back();
}

/// Runs `body` in a child, whose perf map is new, and removes that map. 0: all held.
template <typename Body>
int in_child(Body body) {
    const pid_t child = fork();
    if (child == 0) {
        const int failed = body();
        unlink(PerfMap::path().c_str());
        _exit(failed);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#define HOLDS(condition) \
    if (!(condition)) return __LINE__ % 256 ? __LINE__ % 256 : 255

int publishes_and_resolves() {
    CodeSlab& slab = new_slab();
    HOLDS(::access(PerfMap::path().c_str(), F_OK) != 0);  // nothing before the first code
    const auto first = slab.publish(code_of(1), "whet:matmul_m32_n1536_k384");
    const auto second = slab.publish(code_of(2), "whet:second");
    const auto again = slab.publish(code_of(1), "whet:again");
    HOLDS(first && second && again && *first == *again);
    (*first)(nullptr);
    (*second)(nullptr);
    const std::string path = PerfMap::path();
    HOLDS(name_at(path, reinterpret_cast<const void*>(*first)) == "whet:matmul_m32_n1536_k384");
    HOLDS(name_at(path, reinterpret_cast<const void*>(*second)) == "whet:second");
    HOLDS(lines_of(path).size() == 2);
    HOLDS(lines_of(path)[0].begin + 1 == reinterpret_cast<uintptr_t>(*first));  // the entry is 1
    HOLDS(lines_of(path)[0].bytes == 4);
    struct stat status {};
    HOLDS(::lstat(path.c_str(), &status) == 0);
    HOLDS(S_ISREG(status.st_mode) && (status.st_mode & 0777) == 0600 && status.st_uid == geteuid());
    return 0;
}

TEST(PerfMap, AddressesOfPublishedCodeResolve) { EXPECT_EQ(in_child(publishes_and_resolves), 0); }

TEST(PerfMap, CodeLiesInMemoryOfNoFile) {
    // Samples in a mapping of a file are looked up in that file, never in the map.
    const auto function = new_slab().publish(code_of(3), "whet:anonymous");
    ASSERT_TRUE(function);
    const auto at = reinterpret_cast<uintptr_t>(*function);
    std::ifstream maps("/proc/self/maps");
    bool found = false;
    for (std::string line; std::getline(maps, line);) {
        std::istringstream words(line);
        uintptr_t begin = 0, end = 0;
        char dash = 0;
        std::string rights, offset, device, inode, path;
        words >> std::hex >> begin >> dash >> end >> rights >> offset >> device >> inode >> path;
        if (at < begin || at >= end) continue;
        found = true;
        EXPECT_EQ(rights, "r-xp");
        EXPECT_EQ(path, "");
    }
    EXPECT_TRUE(found);
    unlink(PerfMap::path().c_str());
}

TEST(PerfMap, WhatIsThereIsLeftAlone) {
    char target[] = "/tmp/whet-perf-map-test-XXXXXX";
    const int file = mkstemp(target);
    ASSERT_GE(file, 0);
    ASSERT_EQ(write(file, "mine\n", 5), 5);
    close(file);
    for (const bool symbolic : {true, false}) {
        EXPECT_EQ(
            in_child([&] {
                const std::string path = PerfMap::path();
                HOLDS((symbolic ? symlink(target, path.c_str()) : link(target, path.c_str())) == 0);
                const auto function = new_slab().publish(code_of(4), "whet:refused");
                HOLDS(function);
                (*function)(nullptr);
                HOLDS(contents(path) == "mine\n");
                return 0;
            }),
            0);
        EXPECT_EQ(contents(target), "mine\n");
    }
    unlink(target);
}

TEST(PerfMap, AChildsFileBeginsWithItsParentsLines) {
    EXPECT_EQ(
        in_child([] {
            CodeSlab& slab = new_slab();
            const auto parents = slab.publish(code_of(5), "whet:parents");
            HOLDS(parents);
            const std::string parents_path = PerfMap::path();
            const std::string before = contents(parents_path);
            const int failed = in_child([&] {
                slab.after_fork_in_child();
                const auto own = slab.publish(code_of(6), "whet:own");
                HOLDS(own);
                const std::string path = PerfMap::path();
                HOLDS(name_at(path, reinterpret_cast<const void*>(*parents)) == "whet:parents");
                HOLDS(name_at(path, reinterpret_cast<const void*>(*own)) == "whet:own");
                HOLDS(lines_of(path).size() == 2);
                return 0;
            });
            HOLDS(failed == 0);
            HOLDS(contents(parents_path) == before);
            return 0;
        }),
        0);
}

TEST(PerfMap, AFileOfTheProgramIsNeverWritten) {
    // A daemon closes all descriptors, and its next file gets the map's number.
    EXPECT_EQ(in_child([] {
                  CodeSlab& slab = new_slab();
                  HOLDS(slab.publish(code_of(7), "whet:before"));
                  closefrom(3);
                  char path[] = "/tmp/whet-perf-map-test-XXXXXX";
                  const int own = mkstemp(path);
                  for (int i = 0; i < 8; ++i) HOLDS(dup(own) >= 0);
                  HOLDS(slab.publish(code_of(8), "whet:after"));
                  const std::string text = contents(path);
                  unlink(path);
                  HOLDS(text.empty());
                  return 0;
              }),
              0);
}

TEST(PerfMap, NamesAreOneWord) {
    const struct {
        const char *operation, *kernel, *expected;
    } kCases[] = {
        {"matmul m=32 n=1536 k=384", "", "whet:matmul_m32_n1536_k384"},
        {"matmul m=3 k=5 b=t bias+relu", "tile.avx2.r4.v2",
         "whet:matmul_m3_k5_bt_bias+relu:tile.avx2.r4.v2"},
        {"odd\nname\t\"x\"", "", "whet:odd_name__x_"},
    };
    for (const auto& one : kCases) EXPECT_EQ(perf_name(one.operation, one.kernel), one.expected);
}

}  // namespace
}  // namespace whet::runtime
