// SPDX-License-Identifier: Apache-2.0
// whet-microkernels LIBRARY_FOLDER FILE: makes the installed microkernels; run by the build.
#include <cstdio>

#include "jit/cpu/compiler.hpp"
#include "jit/cpu/prebuilt.hpp"
#include "jit/cpu/prebuilt_list.hpp"

namespace whet::jit::cpu {
namespace {

base::Result<std::vector<Blob>> build_all(Compiler& compiler) {
    std::vector<Blob> blobs;
    for (const MicrokernelSpec& spec : prebuilt_specs()) {
        WHET_TRY(Blob blob, compiler.compile(spec));
        WHET_TRY(const StaticReport report, compiler.check(blob, false));
        if (!report.accepted) {
            return base::make_error(base::Code::verify_failed, "%s: %s", spec.print().c_str(),
                                    report.reason.c_str());
        }
        blobs.push_back(std::move(blob));
    }
    return blobs;
}

base::Result<void> make_file(const std::string& directory, const std::string& path) {
    WHET_TRY(const auto compiler, open_compiler(directory));
    WHET_TRY(auto blobs, build_all(*compiler));
    return write_prebuilt(path, std::move(blobs));
}

}  // namespace
}  // namespace whet::jit::cpu

int main(int count, char** arguments) {
    if (count != 3) {
        std::fprintf(stderr, "usage: whet-microkernels LIBRARY_FOLDER FILE\n");
        return 2;
    }
    const auto made = whet::jit::cpu::make_file(arguments[1], arguments[2]);
    if (!made) std::fprintf(stderr, "whet-microkernels: %s\n", made.error().message.c_str());
    return made ? 0 : 1;
}
