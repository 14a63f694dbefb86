// SPDX-License-Identifier: Apache-2.0
// Opens peer modules and hands out their runnables.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/whet/bench/case.hpp"
#include "tools/whet/bench/peer.h"

namespace whet::bench {

/// A peer by name and the module that holds it.
struct Peer {
    std::string name;
    const bench_peer* module = nullptr;
};

/// Opens the modules of the named peers ("torch", "mkl-packed", "openblas"). Throws
/// std::runtime_error that says which peer is missing and why. A module stays open as long as the
/// process.
std::vector<Peer> open_peers(const std::vector<std::string>& names, int threads);

/// The allocator of destinations: the first peer's, or 64-byte aligned malloc.
struct Allocator {
    void* (*allocate)(size_t bytes);
    void (*release)(void* pointer, size_t bytes);
};
Allocator allocator_of(const std::vector<Peer>& peers);

struct RunnableDeleter {
    const bench_peer* module = nullptr;
    void operator()(bench_runnable* runnable) const { module->destroy(runnable); }
};
using Runnable = std::unique_ptr<bench_runnable, RunnableDeleter>;

/// Splits "a,b,c"; drops empty parts.
std::vector<std::string> split_names(const std::string& text);

}  // namespace whet::bench
