// SPDX-License-Identifier: Apache-2.0
// Prints the bits of fixed operations as plans compute them: `numerics_cases ISA`; numerics_test.py
// compares.
#include <sys/mman.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "jit/cpu/compiler.hpp"
#include "jit/plan/plan.hpp"
#include "jit/sketch/space.hpp"
#include "tests/jit/operations.hpp"

namespace whet::jit {
namespace {

/// numerics.py: fixed_input.
template <typename T>
void fixed_input(std::vector<T>& values, uint32_t seed) {
    uint32_t state = seed;
    const auto next = [&state] { return state = state * 1664525u + 1013904223u; };
    for (T& value : values) {
        uint64_t bits = next();
        if constexpr (sizeof(T) == sizeof(double)) {
            bits = (bits >> 6) << 26;
            bits += next() >> 6;
            value = static_cast<double>(bits) / static_cast<double>(uint64_t{1} << 51) - 1.0;
        } else {
            value = static_cast<float>(static_cast<double>(bits >> 8) / (1 << 23) - 1.0);
        }
    }
}

struct Case {
    const char* name;
    whet_op op;
    std::vector<uint32_t> seeds;  ///< of a, b, bias or dst
};

whet_op scaled(whet_op op, double alpha, double beta) {
    op.alpha = alpha;
    op.beta = beta;
    return op;
}

std::vector<Case> cases() {
    return {
        {"matmul", scaled(test::matmul_op(5, 9, 1100), 0.5f, 2.0f), {1, 2, 3}},
        {"matmul_f64", scaled(test::in_f64(test::matmul_op(5, 9, 1100)), 0.1, -1.7), {1, 2, 3}},
        {"conv",
         test::conv_op({.in = 130,
                        .out = 3,
                        .rows = 4,
                        .columns = 5,
                        .kernel = 3,
                        .stride = 2,
                        .padding = 1,
                        .bias = true}),
         {4, 5, 6}},
        {"conv_transpose",
         test::conv_op({.in = 6,
                        .out = 2,
                        .rows = 3,
                        .columns = 4,
                        .kernel = 4,
                        .stride = 2,
                        .padding = 1,
                        .transposed = true}),
         {8, 9}},
    };
}

/// Compiled microkernels in executable memory of this process.
class Code {
public:
    explicit Code(Isa isa) : isa_(isa) {
        if (isa == Isa::portable) return;
        auto compiler = cpu::open_compiler(WHET_TEST_LIBRARY_DIR);
        if (!compiler) {
            std::fprintf(stderr, "%s\n", compiler.error().message.c_str());
            std::exit(1);
        }
        compiler_ = std::move(*compiler);
        at_ = static_cast<uint8_t*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE | PROT_EXEC,
                                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    }
    std::vector<MicrokernelFunction> bind(const Plan& plan) {
        std::vector<MicrokernelFunction> functions;
        for (const MicrokernelSpec& spec : plan.kernels) {
            if (isa_ == Isa::portable) break;
            const auto blob = compiler_->compile(spec);
            if (!blob) {
                std::fprintf(stderr, "%s\n", blob.error().message.c_str());
                std::exit(1);
            }
            std::memcpy(at_, blob->bytes.data(), blob->bytes.size());
            functions.push_back(reinterpret_cast<MicrokernelFunction>(
                reinterpret_cast<uintptr_t>(at_) + blob->entry));
            at_ += (blob->bytes.size() + 63) / 64 * 64;
        }
        return functions;
    }

private:
    static constexpr size_t kBytes = 64 << 20;
    Isa isa_;
    std::unique_ptr<cpu::Compiler> compiler_;
    uint8_t* at_ = nullptr;
};

template <typename T>
void print(const Case& c, const Schedule& schedule, Isa isa, Code& code) {
    const auto plan = lower(c.op, schedule, isa);
    if (!plan) std::exit(1);
    const auto functions = code.bind(*plan);
    std::vector<std::vector<T>> storage(c.op.operand_count);
    storage[WHET_DST].assign(static_cast<size_t>(test::elements_of(c.op.operands[WHET_DST])), NAN);
    for (size_t i = 0; i < c.seeds.size(); ++i) {
        const size_t operand = i + 1 < c.op.operand_count ? i + 1 : static_cast<size_t>(WHET_DST);
        storage[operand].resize(static_cast<size_t>(test::elements_of(c.op.operands[operand])));
        fixed_input(storage[operand], c.seeds[i]);
    }
    std::vector<void*> pointers;
    for (auto& s : storage) pointers.push_back(s.data());
    std::vector<std::byte> raw(plan->private_bytes + plan->shared_bytes + 64);
    auto* scratch =
        reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(raw.data()) + 63) / 64 * 64);
    run_plan(*plan, functions.empty() ? nullptr : functions.data(), Operands{pointers.data()},
             scratch);
    std::printf("%s|%s|", c.name, schedule.print().c_str());
    for (const T value : storage[WHET_DST]) {
        uint64_t bits = 0;
        std::memcpy(&bits, &value, sizeof(value));
        std::printf("%0*llx", static_cast<int>(2 * sizeof(T)), static_cast<unsigned long long>(bits));
    }
    std::printf("\n");
}

void print_plan_of(const Case& c, const Schedule& schedule, Isa isa, Code& code) {
    if (c.op.operands[WHET_DST].dtype == WHET_F64)
        print<double>(c, schedule, isa, code);
    else
        print<float>(c, schedule, isa, code);
}

}  // namespace
}  // namespace whet::jit

int main(int argc, char** argv) {
    using namespace whet::jit;
    const auto isa = parse_isa(argc > 1 ? argv[1] : "");
    if (!isa) {
        std::fprintf(stderr, "usage: numerics_cases portable|avx2|avx512\n");
        return 2;
    }
    const bool runs = *isa == Isa::portable ||
                      (*isa == Isa::avx2 && __builtin_cpu_supports("avx2")) ||
                      (*isa == Isa::avx512 && __builtin_cpu_supports("avx512vl"));
    if (!runs) return 77;  // this CPU lacks it: the script counts a skip
    Code code(*isa);
    MachineModel machine;
    machine.isa = *isa;
    for (const Case& c : cases()) {
        const auto space = make_space(c.op, machine);
        for (int sketch = 0; sketch < space->sketch_count(); ++sketch)
            print_plan_of(c, space->schedule_at(sketch, space->default_point(sketch)), *isa, code);
        for (const Schedule& schedule : analytical_draft(*space, 3, nullptr, nullptr))
            print_plan_of(c, schedule, *isa, code);
    }
    return 0;
}
