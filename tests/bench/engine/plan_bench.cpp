// SPDX-License-Identifier: Apache-2.0
// Times plans of one operation in this process, without forge or dispatch: for work on the engine itself.
//
//     plan_bench [--frozen] [--f64] [--top N] [--rounds N] [--rotate MIB] [--schedule TEXT]... [--beside LIBRARY]
//                matmul|linear|bmm|conv2d|conv_transpose2d|softmax key=value...
//
// Prints nanoseconds, GFLOP/s and the model's estimate of each schedule, best first; schedules take turns, so that a
// busy moment of the machine meets all of them. Weights rotate over copies larger than the second-level cache. LIBRARY
// is one that exports cblas_sgemm_pack and cblas_sgemm_compute (libtorch_cpu.so): its product takes turns with them.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <functional>
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
    constexpr size_t kArena = size_t{4} << 30, kHuge = 2 << 20;
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

/// A packed product of another library, row-major, one thread.
struct Beside {
    using Size = size_t (*)(int, int, int, int);
    using Pack = void (*)(int, int, int, int, int, int, float, const float*, int, float*);
    using Compute = void (*)(int, int, int, int, int, int, const float*, int, const float*, int, float, float*, int);
    Size size = nullptr;
    Pack pack = nullptr;
    Compute compute = nullptr;
    static constexpr int kRowMajor = 101, kPlain = 111, kTransposed = 112, kPacked = 151, kMatrixB = 162;

    bool open(const char* path) {
        void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) return false;
        size = reinterpret_cast<Size>(dlsym(library, "cblas_sgemm_pack_get_size"));
        pack = reinterpret_cast<Pack>(dlsym(library, "cblas_sgemm_pack"));
        compute = reinterpret_cast<Compute>(dlsym(library, "cblas_sgemm_compute"));
        return size != nullptr && pack != nullptr && compute != nullptr;
    }
};

struct Candidate {
    std::string text;
    double estimate = 0;
    std::function<void()> run;
    int inner = 1;
    std::vector<double> times;
};

void time_in_turns(std::vector<Candidate>& candidates, int rounds) {
    constexpr double kSliceNs = 2e6;
    for (Candidate& c : candidates) {
        c.run();
        const double begin = now_ns();
        c.run();
        c.inner = std::max(1, static_cast<int>(kSliceNs / (now_ns() - begin)));
    }
    for (int round = 0; round < rounds; ++round)
        for (Candidate& c : candidates) {
            const double begin = now_ns();
            for (int i = 0; i < c.inner; ++i) c.run();
            c.times.push_back((now_ns() - begin) / c.inner);
        }
    for (Candidate& c : candidates) std::sort(c.times.begin(), c.times.end());
}

struct Arguments {
    bool frozen = false, f64 = false;
    size_t top = 10;
    int rounds = 9;
    int64_t rotate = 64;  ///< MiB of weights that the calls go through
    std::vector<std::string> only;
    const char* beside = nullptr;
    Isa isa = __builtin_cpu_supports("avx512f") ? Isa::avx512 : Isa::avx2;
    int first = 1;  ///< of the operation
};

Arguments parse_arguments(int argc, char** argv) {
    Arguments a;
    for (; a.first < argc && argv[a.first][0] == '-'; ++a.first) {
        const std::string name = argv[a.first];
        if (name == "--frozen") a.frozen = true;
        else if (name == "--f64") a.f64 = true;
        else if (name == "--avx2") a.isa = Isa::avx2;
        else if (a.first + 1 >= argc) break;
        else if (name == "--top") a.top = static_cast<size_t>(std::atoi(argv[++a.first]));
        else if (name == "--rounds") a.rounds = std::atoi(argv[++a.first]);
        else if (name == "--rotate") a.rotate = std::atoi(argv[++a.first]);
        else if (name == "--schedule") a.only.push_back(argv[++a.first]);
        else if (name == "--beside") a.beside = argv[++a.first];
    }
    return a;
}

/// One set of operands, and how many copies of the weights the calls go through.
struct Weights {
    test::Buffers buffers;
    int copies = 1;
    float* source() { return static_cast<float*>(buffers.pointers[WHET_B]); }
};

/// Copies of one layout. All that read it share one position, so that no call finds what another has just loaded.
struct Rotation {
    std::vector<float*> copies;
    size_t at = 0;
    float* next() { return copies[at++ % copies.size()]; }
};

Rotation& rotation_of(const Plan& plan, Weights& weights) {
    static std::map<uint64_t, Rotation> rotations;  // by layout; 0: as the caller has them
    const PackLayout& layout = plan.frozen[WHET_B];
    const whet_op& op = plan.op;
    Rotation& rotation = rotations[layout.id];
    const size_t bytes = layout.id != 0 ? layout.bytes : op.kind == WHET_SOFTMAX ? 4
                         : static_cast<size_t>(test::elements_of(op.operands[WHET_B]) * bytes_of(element_of(op)));
    while (rotation.copies.size() < static_cast<size_t>(weights.copies)) {
        rotation.copies.push_back(huge_pages(bytes));
        if (layout.id != 0 && rotation.copies.size() == 1) pack_frozen(plan, WHET_B, weights.source(), rotation.copies[0]);
        else if (op.kind != WHET_SOFTMAX) std::memcpy(rotation.copies.back(), layout.id ? rotation.copies[0] : weights.source(), bytes);
    }
    return rotation;
}

Candidate of_plan(std::shared_ptr<const Plan> plan, std::vector<MicrokernelFunction> functions, Weights& weights,
                  const MachineModel& machine) {
    auto raw = std::make_shared<std::vector<std::byte>>(plan->private_bytes + plan->shared_bytes + 128);
    auto* scratch = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(raw->data()) + 63) / 64 * 64);
    Rotation& rotation = rotation_of(*plan, weights);
    std::vector<void*> pointers = weights.buffers.pointers;
    const double estimate = cost_of(*plan, machine).ns(machine);
    return {plan->schedule.print(), estimate, [=, &rotation]() mutable {
                (void)raw;
                Operands operands{pointers.data()};
                if (plan->frozen[WHET_B].id != 0) operands.packed[WHET_B] = rotation.next();
                else if (pointers.size() > WHET_B) pointers[WHET_B] = rotation.next();
                run_plan(*plan, functions.data(), operands, scratch);
            }};
}

Candidate of_library(const Beside& other, const whet_op& op, Weights& weights) {
    const auto extent = [&](int operand, int d) { return static_cast<int>(op.operands[operand].extents[d]); };
    const int m = extent(WHET_DST, 0), n = extent(WHET_DST, 1), k = extent(WHET_A, 1);
    const bool transposed = op.operands[WHET_B].strides[0] == 1 && k > 1;
    std::vector<float*> panels;
    for (int c = 0; c < weights.copies; ++c) {
        const size_t bytes = other.size(Beside::kMatrixB, m, n, k);
        panels.push_back(static_cast<float*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64)));
        if (c > 0) std::memcpy(panels[c], panels[0], bytes);
        else other.pack(Beside::kRowMajor, Beside::kMatrixB, transposed ? Beside::kTransposed : Beside::kPlain, m, n, k, 1.0f,
                        weights.source(), transposed ? k : n, panels[0]);
    }
    auto* dst = static_cast<float*>(weights.buffers.pointers[WHET_DST]);
    const auto* a = static_cast<const float*>(weights.buffers.pointers[WHET_A]);
    const float* bias = op.operand_count > WHET_BIAS ? static_cast<const float*>(weights.buffers.pointers[WHET_BIAS]) : nullptr;
    return {"library", 0, [=, call = size_t{0}]() mutable {
                if (bias)
                    for (int i = 0; i < m; ++i) std::copy_n(bias, n, dst + static_cast<int64_t>(i) * n);
                other.compute(Beside::kRowMajor, Beside::kPlain, Beside::kPacked, m, n, k, a, k,
                              panels[call++ % panels.size()], n, bias ? 1.0f : 0.0f, dst, n);
            }};
}

/// cblas_dgemm of another library, on operands in place.
using Product = void (*)(int, int, int, int, int, int, double, const double*, int, const double*, int, double, double*, int);
Product open_product(const char* library) {
    void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    return handle ? reinterpret_cast<Product>(dlsym(handle, "cblas_dgemm")) : nullptr;
}
Candidate of_product(Product product, const whet_op& op, Weights& weights) {
    const auto extent = [&](int operand, int d) { return static_cast<int>(op.operands[operand].extents[d]); };
    const int m = extent(WHET_DST, 0), n = extent(WHET_DST, 1), k = extent(WHET_A, 1);
    const bool transposed = op.operands[WHET_B].strides[0] == 1 && k > 1;
    auto* dst = static_cast<double*>(weights.buffers.pointers[WHET_DST]);
    const auto* a = static_cast<const double*>(weights.buffers.pointers[WHET_A]);
    auto* rotation = new Rotation;  // for the process
    const size_t bytes = static_cast<size_t>(test::elements_of(op.operands[WHET_B])) * sizeof(double);
    for (int c = 0; c < weights.copies; ++c) {
        rotation->copies.push_back(huge_pages(bytes));
        std::memcpy(rotation->copies.back(), weights.source(), bytes);
    }
    return {"library", 0, [=] {
                const auto* b = reinterpret_cast<const double*>(rotation->next());
                product(Beside::kRowMajor, Beside::kPlain, transposed ? Beside::kTransposed : Beside::kPlain, m, n, k, 1.0, a, k,
                        b, transposed ? k : n, 0.0, dst, n);
            }};
}

}  // namespace

int main(int argc, char** argv) {
    const Arguments arguments = parse_arguments(argc, argv);
    if (arguments.first >= argc) return 2;
    whet_op op = make_op(argv[arguments.first], parse(argc, argv, arguments.first + 1));
    if (arguments.f64) op = test::in_f64(op);
    if (arguments.frozen) op.frozen = 1u << WHET_B;
    MachineModel machine;
    machine.isa = arguments.isa;
    machine.l2_bytes = 2 << 20;
    const auto space = make_space(op, machine);
    const double t0 = now_ns();
    std::vector<Schedule> draft;
    for (const std::string& text : arguments.only)
        if (auto schedule = Schedule::parse(text)) draft.push_back(*schedule);
    if (draft.empty()) draft = analytical_draft(*space, arguments.top, nullptr, nullptr);
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
    Weights weights{test::Buffers(op, random, false)};
    const int64_t bytes = test::elements_of(op.operands[op.kind == WHET_SOFTMAX ? WHET_A : WHET_B]) * bytes_of(element_of(op));
    weights.copies = static_cast<int>(std::clamp<int64_t>((arguments.rotate << 20) / std::max<int64_t>(1, bytes), 1, 2048));
    std::vector<Candidate> candidates;
    for (const Schedule& schedule : draft) {
        auto plan = lower(op, schedule, arguments.isa);
        if (!plan) {
            std::fprintf(stderr, "%s\n", plan.error().message.c_str());
            continue;
        }
        std::vector<MicrokernelFunction> functions;
        for (const auto& spec : plan->kernels) functions.push_back(code.get(spec));
        if (std::count(functions.begin(), functions.end(), nullptr)) continue;
        candidates.push_back(of_plan(std::make_shared<const Plan>(std::move(*plan)), functions, weights, machine));
    }
    Beside other;
    if (arguments.beside != nullptr && arguments.f64) {
        const Product product = open_product(arguments.beside);
        if (product) candidates.push_back(of_product(product, op, weights));
        else std::fprintf(stderr, "%s: no cblas_dgemm\n", arguments.beside);
    } else if (arguments.beside != nullptr && op.kind == WHET_MATMUL && op.operands[WHET_DST].rank == 2) {
        if (other.open(arguments.beside)) candidates.push_back(of_library(other, op, weights));
        else std::fprintf(stderr, "%s: no packed product\n", arguments.beside);
    }
    time_in_turns(candidates, arguments.rounds);
    std::sort(candidates.begin(), candidates.end(),
              [](const Candidate& a, const Candidate& b) { return a.times[a.times.size() / 4] < b.times[b.times.size() / 4]; });
    for (const Candidate& c : candidates)
        std::printf("%10.2f us %7.1f GF  min %7.1f GF  est %9.2f us  %s\n", c.times[c.times.size() / 4] / 1e3,
                    flops_of(op) / c.times[c.times.size() / 4], flops_of(op) / c.times[0], c.estimate / 1e3, c.text.c_str());
    return 0;
}
