// SPDX-License-Identifier: Apache-2.0
// The LLVM-free side of the compiler: opens libwhet_llvm.so and speaks its C function table.
#include "jit/cpu/compiler.hpp"

#include <dlfcn.h>

#include "jit/cpu/llvm_api.hpp"

namespace whet::jit::cpu {
namespace {

class LlvmCompiler final : public Compiler {
public:
    LlvmCompiler(const whet_llvm_api* api, void* session) : api_(api), session_(session) {}
    ~LlvmCompiler() override { api_->close(session_); }
    LlvmCompiler(const LlvmCompiler&) = delete;
    LlvmCompiler& operator=(const LlvmCompiler&) = delete;

    base::Result<Blob> compile(const MicrokernelSpec& spec) override {
        WHET_TRY_VOID(spec.check());
        whet_llvm_answer answer = {};
        api_->compile(session_, spec.print().c_str(), &answer);
        if (answer.code != 0) return take_error(answer);
        Blob blob = {spec, std::vector<uint8_t>(answer.bytes, answer.bytes + answer.byte_count),
                     answer.entry, answer.text_bytes};
        api_->release(&answer);
        return blob;
    }

    base::Result<StaticReport> check(const Blob& blob, bool want_disassembly) override {
        whet_llvm_answer answer = {};
        api_->check(session_, blob.spec.print().c_str(), blob.bytes.data(), blob.bytes.size(),
                    blob.entry, blob.text_bytes, want_disassembly, &answer);
        if (answer.code != 0) return take_error(answer);
        StaticReport report = {answer.accepted != 0, answer.message, answer.fma_count,
                               answer.load_count, answer.disassembly};
        api_->release(&answer);
        return report;
    }

private:
    base::Error take_error(whet_llvm_answer& answer) {
        base::Error error =
            base::make_error(static_cast<base::Code>(answer.code), "%s", answer.message);
        api_->release(&answer);
        return error;
    }

    const whet_llvm_api* api_;
    void* session_;
};

}  // namespace

std::string_view generator_identity() noexcept { return whet_generator_identity; }

base::Result<std::unique_ptr<Compiler>> open_compiler(const std::string& directory, Fatal fatal) {
    const std::string path = directory + "/" + kLlvmLibrary;
    // Never closed: LLVM keeps destructors and thread-local state that do not survive it.
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == nullptr) {
        const char* reason = dlerror();
        return base::make_error(base::Code::io_error, "cannot open %s: %s", path.c_str(),
                                reason ? reason : "unknown");
    }
    const auto get_api =
        reinterpret_cast<const whet_llvm_api* (*)()>(dlsym(library, kLlvmApiSymbol));
    const whet_llvm_api* api = get_api != nullptr ? get_api() : nullptr;
    const char* const build =
        api != nullptr && api->version == kLlvmApiVersion ? api->build : "before build numbers";
    if (generator_identity() != build) {
        return base::make_error(base::Code::io_error,
                                "%s: got generator %s, expected %s: install the libraries of one "
                                "build",
                                path.c_str(), build, whet_generator_identity);
    }
    if (fatal == Fatal::park) api->park_on_fatal_error();
    void* session = api->open();
    if (session == nullptr)
        return base::make_error(base::Code::internal, "no memory for a compile session");
    return std::unique_ptr<Compiler>(std::make_unique<LlvmCompiler>(api, session));
}

}  // namespace whet::jit::cpu
