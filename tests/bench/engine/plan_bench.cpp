// SPDX-License-Identifier: Apache-2.0
// Times plans of one operation in this process, without forge or dispatch: for work on the engine itself.
//
//     plan_bench [--frozen] [--top N] [--schedule TEXT] matmul|linear|bmm|conv2d|conv_transpose2d|softmax key=value...
//
// Prints nanoseconds, GFLOP/s and the model's estimate of each schedule, best first. Weights rotate over copies larger
// than the second-level cache.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <sys/mman.h>
#include <vector>

#include "jit/cpu/compiler.hpp"
#include "jit/op/computation.hpp"
#include "jit/reference/reference.hpp"
#include "jit/sketch/cost.hpp"
#include "jit/sketch/space.hpp"
#include "tests/jit/operations.hpp"

using namespace whet;
using namespace whet::jit;

namespace {

double now_ns() {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e9 * static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec);
}

std::map<std::string, int64_t> parse(int argc, char** argv, int first) {
    std::map<std::string, int64_t> values;
    for (int i = first; i < argc; ++i) {
        const char* equals = std::strchr(argv[i], '=');
        if (equals) values[std::string(argv[i], static_cast<size_t>(equals - argv[i]))] = std::atoll(equals + 1);
    }
    return values;
}

whet_op make_op(const std::string& kind, std::map<std::string, int64_t> v) {
    const auto get = [&](const char* name, int64_t none) { return v.count(name) ? v[name] : none; };
    if (kind == "linear") {
        whet_op op = test::matmul_op(v["m"], v["n"], v["k"], true);
        op.operands[op.operand_count++] = test::view_of({v["n"]});
        op.bias_axis = 1;
        return op;
    }
    if (kind == "matmul") return test::matmul_op(v["m"], v["n"], v["k"]);
    if (kind == "bmm")
        return test::op_of(WHET_MATMUL, {test::view_of({v["b"], v["m"], v["n"]}), test::view_of({v["b"], v["m"], v["k"]}),
                                         test::view_of({v["b"], v["k"], v["n"]})});
    if (kind == "softmax") return test::op_of(WHET_SOFTMAX, {test::view_of({v["rows"], v["columns"]}), test::view_of({v["rows"], v["columns"]})});
    test::ConvCase c;
    c.batch = get("b", 1);
    c.in = v["ci"];
    c.out = v["co"];
    c.rows = c.columns = v["h"];
    if (v.count("w")) c.columns = v["w"];
    c.kernel = get("k", 1);
    c.stride = static_cast<int>(get("s", 1));
    c.padding = static_cast<int>(get("p", 0));
    c.groups = static_cast<int>(get("g", 1));
    c.transposed = kind == "conv_transpose2d";
    return test::conv_op(c);
}

/// Packed copies on huge pages, as the runtime keeps them; one arena, used again for every schedule.
size_t at_huge = 0;
float* huge_pages(size_t bytes) {
    constexpr size_t kArena = size_t{1} << 30, kHuge = 2 << 20;
    static uint8_t* arena = [] {
        auto* p = static_cast<uint8_t*>(mmap(nullptr, kArena + kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        p = reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(p) + kHuge - 1) / kHuge * kHuge);
        madvise(p, kArena, MADV_HUGEPAGE);
        return p;
    }();
    uint8_t* p = arena + at_huge;
    at_huge += (bytes + 4095) / 4096 * 4096;
    return reinterpret_cast<float*>(p);
}

struct Code {
    std::map<std::string, MicrokernelFunction> functions;
    uint8_t* at = nullptr;
    std::unique_ptr<cpu::Compiler> compiler;
    MicrokernelFunction get(const MicrokernelSpec& spec) {
        auto& f = functions[spec.print()];
        if (f) return f;
        auto blob = compiler->compile(spec);
        if (!blob) {
            std::fprintf(stderr, "%s: %s\n", spec.print().c_str(), blob.error().message.c_str());
            return nullptr;
        }
        auto report = compiler->check(*blob, false);
        if (report && !report->accepted) std::fprintf(stderr, "%s: %s\n", spec.print().c_str(), report->reason.c_str());
        std::memcpy(at, blob->bytes.data(), blob->bytes.size());
        f = reinterpret_cast<MicrokernelFunction>(reinterpret_cast<uintptr_t>(at + blob->entry));
        at += (blob->bytes.size() + 63) / 64 * 64;
        return f;
    }
};

}  // namespace

int main(int argc, char** argv) {
    bool frozen = false;
    size_t top = 10;
    std::string only;
    Isa isa = __builtin_cpu_supports("avx512f") ? Isa::avx512 : Isa::avx2;
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; ++i) {
        if (!std::strcmp(argv[i], "--frozen")) frozen = true;
        else if (!std::strcmp(argv[i], "--top")) top = static_cast<size_t>(std::atoi(argv[++i]));
        else if (!std::strcmp(argv[i], "--schedule")) only = argv[++i];
        else if (!std::strcmp(argv[i], "--avx2")) isa = Isa::avx2;
    }
    whet_op op = make_op(argv[i], parse(argc, argv, i + 1));
    if (frozen) op.frozen = 1u << WHET_B;
    MachineModel machine;
    machine.isa = isa;
    machine.l2_bytes = 2 << 20;
    const auto space = make_space(op, machine);
    double t0 = now_ns();
    std::vector<Schedule> draft;
    if (only.empty()) draft = analytical_draft(*space, top, nullptr, nullptr);
    else draft.push_back(*Schedule::parse(only));
    std::printf("draft %.1f ms, %d sketches\n", (now_ns() - t0) / 1e6, space->sketch_count());
    Code code;
    code.at = static_cast<uint8_t*>(mmap(nullptr, 16 << 20, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    auto opened = cpu::open_compiler(WHET_TEST_LIBRARY_DIR);
    if (!opened) {
        std::fprintf(stderr, "%s\n", opened.error().message.c_str());
        return 1;
    }
    code.compiler = std::move(*opened);
    std::mt19937 random(1);
    const int64_t weight_bytes = test::elements_of(op.operands[op.kind == WHET_SOFTMAX ? WHET_A : WHET_B]) * 4;
    const int copies = static_cast<int>(std::clamp<int64_t>((64 << 20) / std::max<int64_t>(1, weight_bytes), 1, 16));
    std::vector<test::Buffers> buffers;
    buffers.reserve(static_cast<size_t>(copies));
    for (int c = 0; c < copies; ++c) {
        buffers.emplace_back(op, random, false);
        // Activations are warm: all copies share one source and one result.
        for (const int shared : {WHET_DST, WHET_A}) buffers[c].pointers[shared] = buffers[0].storage[shared].data();
    }
    struct Row { double ns, estimate; std::string text; };
    std::vector<Row> rows;
    for (const Schedule& schedule : draft) {
        auto plan = lower(op, schedule, isa);
        if (!plan) {
            std::fprintf(stderr, "%s\n", plan.error().message.c_str());
            continue;
        }
        std::vector<MicrokernelFunction> functions;
        for (const auto& spec : plan->kernels) functions.push_back(code.get(spec));
        if (std::count(functions.begin(), functions.end(), nullptr)) continue;
        std::vector<std::byte> raw(plan->private_bytes + plan->shared_bytes + 128);
        auto* scratch = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(raw.data()) + 63) / 64 * 64);
        at_huge = 0;
        std::vector<Operands> operands;
        for (int c = 0; c < copies; ++c) {
            operands.push_back({buffers[c].pointers.data()});
            if (plan->frozen[WHET_B].id) {
                float* aligned = huge_pages(plan->frozen[WHET_B].bytes);
                pack_frozen(*plan, WHET_B, buffers[c].pointers[WHET_B], aligned);
                operands[c].packed[WHET_B] = aligned;
            }
        }
        const auto call = [&](int n) { run_plan(*plan, functions.data(), operands[n % copies], scratch); };
        call(0);
        std::vector<double> times;
        double first = now_ns();
        call(0);
        const double once = now_ns() - first;
        const int inner = std::max(1, static_cast<int>(2e6 / once));
        int n = 0;
        for (int r = 0; r < 9; ++r) {
            const double begin = now_ns();
            for (int j = 0; j < inner; ++j) call(n++);
            times.push_back((now_ns() - begin) / inner);
        }
        std::sort(times.begin(), times.end());
        rows.push_back({times[2], cost_of(*plan, machine).ns(machine), schedule.print()});
    }
    std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.ns < b.ns; });
    for (const Row& row : rows)
        std::printf("%10.2f us %7.1f GF  est %9.2f us  %s\n", row.ns / 1e3, flops_of(op) / row.ns, row.estimate / 1e3, row.text.c_str());
    return 0;
}
