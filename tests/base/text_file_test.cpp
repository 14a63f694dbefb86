// SPDX-License-Identifier: Apache-2.0
// Tests of small text files: what is read, and what is never written.
#include "base/text_file.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace whet::base {
namespace {

namespace fs = std::filesystem;

TEST(TextFile, WritesOwnFilesOnly) {
    std::string pattern = testing::TempDir() + "whet_text_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    const std::string folder = pattern, path = folder + "/file";
    EXPECT_TRUE(write_own_text(path, "a longer text\n"));
    EXPECT_TRUE(write_own_text(path, "text\n"));
    EXPECT_EQ(read_text(path), "text");
    struct stat status{};
    ASSERT_EQ(stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
    fs::create_symlink(path, folder + "/link");
    EXPECT_FALSE(write_own_text(folder + "/link", "through a link"));
    ASSERT_EQ(mkfifo((folder + "/pipe").c_str(), 0600), 0);
    EXPECT_FALSE(write_own_text(folder + "/pipe", "into a pipe"));
    EXPECT_FALSE(write_own_text(folder, "a folder"));
    EXPECT_FALSE(write_own_text(folder + "/none/file", "nowhere"));
    if (geteuid() == 0) {
        ASSERT_EQ(chown(path.c_str(), 12345, 12345), 0);
        EXPECT_FALSE(write_own_text(path, "another user's"));
    }
    EXPECT_EQ(read_text(path), "text");
    fs::remove_all(folder);
}

TEST(TextFile, CountsLists) {
    const struct {
        const char* list;
        int count;
    } rows[] = {{"0", 1}, {"0-3", 4}, {"0-3,8", 5}, {"7,9-10", 3}, {"", 1}, {"x", 1}, {"3-1", 1}};
    for (const auto& row : rows) EXPECT_EQ(count_list(row.list), row.count) << row.list;
}

TEST(TextFile, ReadsNumbersAtTheBeginning) {
    EXPECT_EQ(to_integer("12 34"), 12);
    EXPECT_EQ(to_integer("-5"), -5);
    EXPECT_EQ(to_integer("max"), std::nullopt);
    EXPECT_EQ(to_integer(""), std::nullopt);
    EXPECT_EQ(to_integer("99999999999999999999"), std::nullopt);
    EXPECT_EQ(read_text("/nowhere"), "");
}

}  // namespace
}  // namespace whet::base
