// SPDX-License-Identifier: Apache-2.0
#include "tools/whet/bench/peers.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <sstream>
#include <stdexcept>

#include "tools/whet/bench/paths.hpp"

namespace whet::bench {
namespace {

struct Module {
    const char* peer;
    const char* file;
    const char* hint;  ///< when the file is missing
};
constexpr Module kModules[] = {
    {"torch", "peer_torch.so",
     "it is built where the project's .venv holds PyTorch (WHET_WITH_TORCH)"},
    {"mkl-packed", "peer_torch.so",
     "it is built where the project's .venv holds PyTorch (WHET_WITH_TORCH)"},
    {"openblas", "peer_openblas.so", "it is built with WHET_BUILD_BENCH"},
};

const bench_peer* open_module(const Module& entry, int threads) {
    const std::string path = private_library_folder() + "/" + entry.file;
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        throw std::runtime_error(std::string("peer ") + entry.peer +
                                 " is not available: " + dlerror() + "; " + entry.hint);
    const auto function =
        reinterpret_cast<bench_peer_module_function>(dlsym(handle, BENCH_PEER_MODULE_SYMBOL));
    const bench_peer* peer = function ? function() : nullptr;
    if (!peer || peer->version != BENCH_PEER_VERSION)
        throw std::runtime_error(path + " is not a peer module of this build");
    char error[512] = "";
    if (peer->start(threads, error, sizeof error) != 0)
        throw std::runtime_error(std::string("peer ") + entry.peer + " does not start: " + error);
    return peer;
}

void* aligned_allocate(size_t bytes) {
    void* pointer = nullptr;
    return posix_memalign(&pointer, 64, bytes) == 0 ? pointer : nullptr;
}
void aligned_release(void* pointer, size_t) { std::free(pointer); }

}  // namespace

std::vector<Peer> open_peers(const std::vector<std::string>& names, int threads) {
    // Threads that the libraries start by themselves, Whet's background among them, must not
    // compute with more.
    for (const char* variable : {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"})
        setenv(variable, std::to_string(threads).c_str(), 1);
    std::vector<Peer> peers;
    for (const std::string& name : names) {
        const Module* found = nullptr;
        for (const Module& entry : kModules)
            if (name == entry.peer) found = &entry;
        if (!found)
            throw std::runtime_error("unknown peer " + name +
                                     ", known are torch, mkl-packed and openblas");
        peers.push_back({name, open_module(*found, threads)});
    }
    return peers;
}

Allocator allocator_of(const std::vector<Peer>& peers) {
    for (const Peer& peer : peers)
        if (peer.name == "torch" || peer.name == "mkl-packed")
            return {peer.module->allocate, peer.module->release};
    if (!peers.empty()) return {peers[0].module->allocate, peers[0].module->release};
    return {aligned_allocate, aligned_release};
}

std::vector<std::string> split_names(const std::string& text) {
    std::vector<std::string> names;
    std::stringstream parts(text);
    for (std::string part; std::getline(parts, part, ',');)
        if (!part.empty()) names.push_back(part);
    return names;
}

}  // namespace whet::bench
