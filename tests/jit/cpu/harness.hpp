// SPDX-License-Identifier: Apache-2.0
// Shared by the microkernel tests: the compiler under test.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "executable.hpp"
#include "jit/cpu/compiler.hpp"

namespace whet::jit::cpu {

/// The compiler of the whole test program; null after a failure, which is reported.
inline Compiler* test_compiler() {
    static auto opened = open_compiler(library_directory());
    if (!opened) {
        ADD_FAILURE() << opened.error().message;
        return nullptr;
    }
    return opened->get();
}

}  // namespace whet::jit::cpu
