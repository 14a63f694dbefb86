// SPDX-License-Identifier: Apache-2.0
// The static check of blobs: decodes all text and refuses what a microkernel may not contain;
// private to libwhet_llvm.so.
#pragma once

#include <memory>

#include "base/status.hpp"
#include "jit/cpu/compiler.hpp"

namespace whet::jit::cpu {

/// What is checked, in the order of the report:
/// - all of [0, text_bytes) decodes; only listed opcodes, those of AVX-512 only in its
///   blobs; no lock, repeat or segment prefix; 64-bit
/// addresses;
/// - no call, no indirect branch; branches land on instructions of the text, which ends in a return
/// or a jump;
/// - reads relative to the instruction pointer stay in the read-only data, writes never use it;
/// - general registers are loaded from the argument struct, the stack and (spec.taps) the tap table
/// only, and never from a
///   vector, a mask or a stack slot that held a vector: so neither branches nor addresses depend on
///   tensor data;
/// - the stack is used at constant offsets inside the frame and even at the return, so that the
/// return address is safe;
/// - the argument struct is not written, its register not changed; general registers are stored to
/// the stack only;
/// - innermost loops: no access to the stack; of a tile also no store, and as many FMAs as the spec
/// says. What it does not prove: that addresses stay inside the operands. That is the guarded run's
/// part. Not thread-safe. check: about 1 ms.
class StaticChecker {
public:
    StaticChecker();
    ~StaticChecker();
    StaticChecker(const StaticChecker&) = delete;
    StaticChecker& operator=(const StaticChecker&) = delete;

    base::Result<StaticReport> check(const Blob& blob, bool want_disassembly);

private:
    struct Tools;
    class Examination;
    std::unique_ptr<Tools> tools_;
};

}  // namespace whet::jit::cpu
