// SPDX-License-Identifier: Apache-2.0
// The C function table between Whet and libwhet_llvm.so: plain data only, so that the two may
// differ in everything else.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

/// Bytes and texts of one answer; owned by the library until `release`.
struct whet_llvm_answer {
    int32_t code;          ///< base::Code
    const char* message;   ///< the error, or the reason of a refusal, or ""
    const uint8_t* bytes;  ///< compile: the block
    uint64_t byte_count;
    uint32_t entry;
    uint32_t text_bytes;
    int32_t accepted;  ///< check
    int32_t fma_count;
    int32_t load_count;
    const char* disassembly;  ///< check; "" unless asked for
    void* owner;
};

struct whet_llvm_api {
    uint32_t version;    ///< kLlvmApiVersion
    uint32_t generator;  ///< kGeneratorVersion the library was built with
    const char* build;   ///< generator_identity() of the library; not before version 2
    void* (*open)();
    void (*close)(void* session);
    void (*compile)(void* session, const char* spec, whet_llvm_answer* answer);
    void (*check)(void* session, const char* spec, const uint8_t* bytes, uint64_t byte_count,
                  uint32_t entry, uint32_t text_bytes, int32_t want_disassembly,
                  whet_llvm_answer* answer);
    void (*release)(whet_llvm_answer* answer);
    void (*park_on_fatal_error)();  ///< from now on, for the process: see Fatal in compiler.hpp
};

/// What the code generator was made of, as this side knows it (whet_add_identity).
extern const char whet_generator_identity[17];

/// The one exported symbol.
const whet_llvm_api* whet_llvm_api_v1();
}

namespace whet::jit::cpu {

inline constexpr uint32_t kLlvmApiVersion = 2;
inline constexpr const char* kLlvmApiSymbol = "whet_llvm_api_v1";
inline constexpr const char* kLlvmLibrary = "libwhet_llvm.so";

}  // namespace whet::jit::cpu
