// SPDX-License-Identifier: Apache-2.0
// Where the bench finds its suites and peer modules, and temporary folders that go away.
#pragma once

#include <string>

namespace whet::bench {

/// The path of the suite `name` (with or without .json) in tests/bench/suites: of the source tree
/// this was built from, or below the current folder. Empty: none.
std::string find_suite(const std::string& name);
/// The folder lib/whet beside this executable's bin folder.
std::string private_library_folder();

/// A folder of its own below the system's temporary folder, removed at the end.
class TemporaryFolder {
public:
    TemporaryFolder();
    ~TemporaryFolder();
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    const std::string& path() const { return path_; }

private:
    std::string path_;
};

}  // namespace whet::bench
