// SPDX-License-Identifier: Apache-2.0
#include "tools/whet/bench/paths.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace whet::bench {

namespace fs = std::filesystem;

std::string find_suite(const std::string& name) {
    std::string file = fs::path(name).filename().string();
    if (!file.ends_with(".json")) file += ".json";
    for (const fs::path& root : {fs::path("."), fs::path(WHET_BENCH_SOURCE_DIR)}) {
        const fs::path path = root / "tests" / "bench" / "suites" / file;
        if (fs::exists(path)) return path.string();
    }
    return {};
}

std::string private_library_folder() {
    std::error_code code;
    const fs::path self = fs::read_symlink("/proc/self/exe", code);
    if (code) return {};
    for (const char* lib : {"lib", "lib64"}) {
        const fs::path folder = self.parent_path().parent_path() / lib / "whet";
        if (fs::exists(folder)) return folder.string();
    }
    return {};
}

TemporaryFolder::TemporaryFolder() {
    std::error_code code;
    std::string pattern = (fs::temp_directory_path(code) / "whet-bench-XXXXXX").string();
    if (const char* made = mkdtemp(pattern.data())) path_ = made;
}

/// A helper that outlives its program for a moment may still write to its store.
TemporaryFolder::~TemporaryFolder() {
    constexpr int kAttempts = 100;
    constexpr useconds_t kPauseUs = 20'000;
    if (path_.empty()) return;
    std::error_code code;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
        fs::remove_all(path_, code);
        if (!code) return;
        ::usleep(kPauseUs);
    }
}

}  // namespace whet::bench
