// SPDX-License-Identifier: Apache-2.0
// Options that only the layers above base can judge: what cannot be used is dropped, with a
// warning.
#pragma once

#include <unistd.h>

#include <string>
#include <vector>

#include "base/env.hpp"
#include "jit/schedule/schedule.hpp"

namespace whet::runtime {

/// By both ends, program and forge, so that they agree; only the program says the warnings.
inline void drop_unusable(base::Options& options, std::vector<std::string>& warnings) {
    const std::string force = options.force, folder = options.dump_directory;
    if (!force.empty() && force != "whet" && force != "original" && !jit::Schedule::parse(force)) {
        warnings.push_back("WHET_FORCE=" + force +
                           " is ignored: expected whet, original or a schedule");
        options.force.clear();
    }
    if (!folder.empty() && ::access(folder.c_str(), W_OK | X_OK) != 0) {
        warnings.push_back("WHET_DUMP=" + folder + " is ignored: not a folder that can be written");
        options.dump_directory.clear();
    }
}

}  // namespace whet::runtime
