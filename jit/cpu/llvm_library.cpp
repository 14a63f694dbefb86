// SPDX-License-Identifier: Apache-2.0
// libwhet_llvm.so's only export: the C function table over the code generator and the static check.
#include <llvm/Support/ErrorHandling.h>
#include <unistd.h>

#include <memory>
#include <mutex>
#include <new>

#include "jit/cpu/code_generator.hpp"
#include "jit/cpu/llvm_api.hpp"
#include "jit/cpu/static_check.hpp"

namespace whet::jit::cpu {
namespace {

struct Session {
    CodeGenerator generator;
    StaticChecker checker;
};

/// What an answer's pointers point into.
struct Answer {
    std::string message;
    std::string disassembly;
    std::vector<uint8_t> bytes;
};

void fill(whet_llvm_answer* out, base::Code code, std::unique_ptr<Answer> answer) {
    out->code = static_cast<int32_t>(code);
    out->message = answer->message.c_str();
    out->disassembly = answer->disassembly.c_str();
    out->bytes = answer->bytes.data();
    out->byte_count = answer->bytes.size();
    out->owner = answer.release();
}

void fail(whet_llvm_answer* out, const base::Error& error) {
    auto answer = std::make_unique<Answer>();
    answer->message = error.message;
    fill(out, error.code, std::move(answer));
}

void* open_session() { return new (std::nothrow) Session; }
void close_session(void* session) { delete static_cast<Session*>(session); }

void compile(void* session, const char* text, whet_llvm_answer* out) {
    *out = {};
    const auto spec = MicrokernelSpec::parse(text);
    if (!spec) return fail(out, spec.error());
    auto blob = static_cast<Session*>(session)->generator.compile(*spec);
    if (!blob) return fail(out, blob.error());
    auto answer = std::make_unique<Answer>();
    answer->bytes = std::move(blob->bytes);
    out->entry = blob->entry;
    out->text_bytes = blob->text_bytes;
    fill(out, base::Code::ok, std::move(answer));
}

void check(void* session, const char* text, const uint8_t* bytes, uint64_t byte_count,
           uint32_t entry, uint32_t text_bytes, int32_t want_disassembly, whet_llvm_answer* out) {
    *out = {};
    auto spec = MicrokernelSpec::parse(text);
    if (!spec) return fail(out, spec.error());
    const Blob blob = {*spec, std::vector<uint8_t>(bytes, bytes + byte_count), entry, text_bytes};
    auto report = static_cast<Session*>(session)->checker.check(blob, want_disassembly != 0);
    if (!report) return fail(out, report.error());
    auto answer = std::make_unique<Answer>();
    answer->message = std::move(report->reason);
    answer->disassembly = std::move(report->disassembly);
    out->accepted = report->accepted;
    out->fma_count = report->fma_count;
    out->load_count = report->load_count;
    fill(out, base::Code::ok, std::move(answer));
}

void release(whet_llvm_answer* answer) {
    delete static_cast<Answer*>(answer->owner);
    *answer = {};
}

/// Never returns: after this LLVM would exit the process.
[[noreturn]] void park(void*, const char*, bool) {
    for (;;) pause();
}

void park_on_fatal_error() {
    static std::once_flag once;
    std::call_once(once, [] {
        llvm::install_fatal_error_handler(park);
        llvm::install_bad_alloc_error_handler(park);
    });
}

}  // namespace
}  // namespace whet::jit::cpu

extern "C" __attribute__((visibility("default"))) const whet_llvm_api* whet_llvm_api_v1() {
    using namespace whet::jit;
    static const whet_llvm_api table = {
        cpu::kLlvmApiVersion, kGeneratorVersion,  whet_generator_identity,
        cpu::open_session,    cpu::close_session, cpu::compile,
        cpu::check,           cpu::release,       cpu::park_on_fatal_error};
    return &table;
}
