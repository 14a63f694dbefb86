// SPDX-License-Identifier: Apache-2.0
// An executor over a loaded OpenMP runtime.
#include "tools/whet/bench/team.hpp"

#include <dlfcn.h>
#include <link.h>

#include <stdexcept>
#include <string>

namespace whet::bench {
namespace {

struct OpenMp {
    void (*parallel)(void (*body)(void*), void* data, unsigned threads, unsigned flags) = nullptr;
    int (*team)() = nullptr;
    int (*index)() = nullptr;
};

/// A handle of the first loaded object whose name has one of the runtimes' names.
void* loaded_runtime() {
    std::string path;
    dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* found) {
            const std::string name = info->dlpi_name ? info->dlpi_name : "";
            for (const char* const runtime : {"libgomp", "libiomp", "libomp"}) {
                if (name.find(runtime) == std::string::npos) continue;
                *static_cast<std::string*>(found) = name;
                return 1;
            }
            return 0;
        },
        &path);
    return path.empty() ? nullptr : dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
}

OpenMp open_runtime() {
    void* handle = loaded_runtime();
    if (!handle) handle = dlopen("libgomp.so.1", RTLD_NOW);
    OpenMp openmp;
    if (!handle) throw std::runtime_error("no OpenMP runtime for --threads (libgomp.so.1)");
    openmp.parallel = reinterpret_cast<decltype(openmp.parallel)>(dlsym(handle, "GOMP_parallel"));
    openmp.team = reinterpret_cast<int (*)()>(dlsym(handle, "omp_get_num_threads"));
    openmp.index = reinterpret_cast<int (*)()>(dlsym(handle, "omp_get_thread_num"));
    if (!openmp.parallel || !openmp.team || !openmp.index)
        throw std::runtime_error("the loaded OpenMP runtime has no GOMP_parallel");
    return openmp;
}

struct Region {
    const OpenMp& openmp;
    int count;
    void (*task)(void* data, int index);
    void* data;
};

void run_region(void* self) {
    const auto& region = *static_cast<const Region*>(self);
    for (int i = region.openmp.index(); i < region.count; i += region.openmp.team())
        region.task(region.data, i);
}

void run_team(void* self, int count, void (*task)(void* data, int index), void* data) {
    const auto& openmp = *static_cast<const OpenMp*>(self);
    Region region{openmp, count, task, data};
    openmp.parallel(run_region, &region, static_cast<unsigned>(count), 0);
}

}  // namespace

const whet_executor& openmp_team() {
    static OpenMp openmp = open_runtime();
    static const whet_executor executor{run_team, &openmp};
    return executor;
}

}  // namespace whet::bench
