// SPDX-License-Identifier: Apache-2.0
// The executor that runs candidates on the calling thread: contexts per operation, code arena,
// timing.
#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <list>

#include "base/clock.hpp"
#include "base/hash.hpp"
#include "base/host.hpp"
#include "jit/plan/plan.hpp"
#include "jit/plan/prove.hpp"
#include "jit/plan/slice.hpp"
#include "jit/sketch/space.hpp"
#include "runtime/forge/executor.hpp"
#include "runtime/forge/kernel_check.hpp"
#include "runtime/forge/op_context.hpp"
#include "runtime/forge/paired_timer.hpp"

namespace whet::runtime::forge {
namespace {

using base::Code;
using base::make_error;

/// Weights are rotated through this many bytes, so that they come from beyond the second-level
/// cache. Not past the last level: where that is hundreds of MiB shared by many guests, the
/// rotation alone would break the memory budget.
constexpr size_t kRotationBytes = 64u << 20;
constexpr double kPromising = 1.04;     ///< undecided at such a ratio: worth a longer look
constexpr double kTasksPerSlice = 0.7;  ///< with fewer, parts are cut finer than tasks
constexpr int kParts = 3;               ///< places that parts are taken from
constexpr int kControlQuads = 4, kRetestQuads = 8;
constexpr double kControlSpread =
    1.03;  ///< the incumbent against itself must lie within this, else the trial says nothing

/// How much of an operation one sample runs: the same for both of a pair.
struct SampleSize {
    double share = 1;     ///< of a call; below 1: a slice of tasks
    int64_t repeats = 1;  ///< whole calls
};

SampleSize sample_size(double call_ns, const TrialOptions& options) {
    SampleSize size;
    const auto slice = static_cast<double>(options.slice_ns);
    if (call_ns > slice) size.share = std::max(slice / call_ns, 1e-4);
    const double wanted = static_cast<double>(options.sample_ns) / std::max(call_ns, 10.0);
    size.repeats = std::clamp<int64_t>(static_cast<int64_t>(std::ceil(wanted)), 1, 1 << 14);
    return size;
}

/// One runnable with its rotating weights, timed sample by sample.
class TimedPlan {
public:
    /// position: where in the arena the next copy of the weights lies; shared by all, so that none
    /// comes back early.
    TimedPlan(OpContext& context, const Runnable& runnable, const SampleSize& size,
              const GuardedBuffer& arena, size_t& position, std::byte* scratch, size_t shared_bytes)
        : context_(context),
          runnable_(runnable),
          size_(size),
          arena_(arena),
          at_(position),
          scratch_(scratch),
          shared_bytes_(shared_bytes),
          busiest_share_(jit::busiest_share(*runnable.plan)) {
        if (size_.share >= 1) return;
        const bool ranges = plan().phases.size() == 1 && tasks() > 1 && jit::ranges_scale(plan());
        if (ranges && size_.share * static_cast<double>(tasks()) >= kTasksPerSlice) return;
        // Too few tasks: parts of the nest, some at each place, if it can be cut.
        for (int i = 0; i < kParts; ++i) {
            auto part = jit::part_of(plan(), size_.share, static_cast<double>(i) / (kParts - 1));
            if (!part) break;
            parts_.push_back(std::move(*part));
        }
        if (parts_.empty() && !ranges) size_.share = 1;
    }

    /// Nanoseconds of one call, from one sample. An operation of several threads is timed on one;
    /// how evenly its tasks fall to the threads is reckoned, and the program's live trial decides.
    double sample() {
        const uint64_t began = base::cycles_after();
        double calls = 0;
        if (size_.share < 1) {
            calls = run_slice();
        } else {
            for (; calls < static_cast<double>(size_.repeats); ++calls)
                run_tasks(plan(), 0, tasks());
        }
        return static_cast<double>(base::cycles_after() - began) / base::cycles_per_ns() / calls *
               busiest_share_;
    }

private:
    const jit::Plan& plan() const { return *runnable_.plan; }
    int64_t tasks() const { return plan().phases.back().task_count; }

    void* next_weights(size_t bytes) {
        const size_t step =
            (bytes + 4095) / 4096 * 4096 + 64;  // other sets of the caches from copy to copy
        if (at_ + step > arena_.bytes()) at_ = 0;
        void* weights = arena_.data() + at_;
        at_ += step;
        return weights;
    }

    /// Runs a part, or some tasks from a place that moves on, so that edges weigh as in a
    /// whole call; returns the share of a call that was run.
    double run_slice() {
        if (!parts_.empty()) {
            const jit::PartialPlan& part = parts_[next_part_++ % parts_.size()];
            run_tasks(part.plan, 0, part.plan.phases.back().task_count);
            return part.share;
        }
        const auto count =
            std::max<int64_t>(1, static_cast<int64_t>(size_.share * static_cast<double>(tasks())));
        const auto first =
            static_cast<int64_t>(position_ * static_cast<double>(tasks() - count + 1));
        constexpr double kGolden =
            0.6180339887498949;  // spreads the places evenly (Weyl's sequence)
        position_ = std::fmod(position_ + kGolden, 1);
        run_tasks(plan(), first, first + count);
        return jit::work_before(plan(), first + count) - jit::work_before(plan(), first);
    }

    void run_tasks(const jit::Plan& plan, int64_t first, int64_t last) {
        jit::Operands operands = context_.timing_operands();
        void* data[WHET_MAX_OPERANDS];
        std::copy_n(operands.data, WHET_MAX_OPERANDS, data);
        operands.data = data;
        bool rotated = false;
        for (int i = 1; i < WHET_MAX_OPERANDS; ++i) {
            if (plan.frozen[i].id == 0) continue;
            operands.packed[i] = next_weights(plan.frozen[i].bytes);
            rotated = rotated || i == WHET_B;
        }
        if (!rotated && context_.op().operand_count > WHET_B) {
            data[WHET_B] = next_weights(bytes_of(context_.op(), WHET_B));
        }
        const auto phases = static_cast<int>(plan.phases.size());
        for (int phase = 0; phase < phases; ++phase) {
            const bool sliced = phase == phases - 1;  // slices are of plans with one phase
            jit::run_phase(plan, runnable_.table(), phase, operands, scratch_,
                           scratch_ + shared_bytes_, sliced ? first : 0,
                           sliced ? last : plan.phases[static_cast<size_t>(phase)].task_count);
        }
    }

    OpContext& context_;
    const Runnable& runnable_;
    SampleSize size_;
    const GuardedBuffer& arena_;
    size_t& at_;
    std::byte* scratch_;
    size_t shared_bytes_;
    double busiest_share_;
    double position_ = 0;
    std::vector<jit::PartialPlan> parts_;
    size_t next_part_ = 0;
};

class LocalExecutor final : public Executor {
public:
    LocalExecutor(const ExecutorSettings& settings, bool guarded)
        : settings_(settings), guarded_(guarded) {}

    TrialResult trial(const whet_op& op, const Candidate& candidate, const Candidate* incumbent,
                      const TrialOptions& options) override {
        return as_application([&] { return run_trial(op, candidate, incumbent, options); });
    }
    TrialResult check_kernels(const std::vector<KernelRef>& kernels) override {
        return as_application([&] { return run_check(kernels); });
    }
    base::Result<MachineRecord> measure_machine(const BuiltKernel* kernel) override;
    bool contained() const override { return false; }
    double outside_cpu_seconds() const override { return 0; }

private:
    /// Weights to rotate: packed ones on huge pages, as they are in the program, and others.
    struct Arena {
        GuardedBuffer memory;
        size_t at = 0;
    };
    /// Under the application's floating-point modes, its CPU time counted.
    template <typename Run>
    TrialResult as_application(Run run) {
        const uint32_t mxcsr = _mm_getcsr();
        _mm_setcsr(settings_.mxcsr);
        const int64_t cpu = base::thread_cpu_ns();
        TrialResult result = run();
        result.cpu_seconds = static_cast<double>(base::thread_cpu_ns() - cpu) * 1e-9;
        _mm_setcsr(mxcsr);
        return result;
    }
    TrialResult run_check(const std::vector<KernelRef>& kernels);
    TrialResult run_trial(const whet_op& op, const Candidate& candidate, const Candidate* incumbent,
                          const TrialOptions& options);
    void measure(OpContext& context, const Runnable& candidate, const Runnable* incumbent,
                 const TrialOptions& options, TrialResult& result);
    base::Result<OpContext*> context_of(const whet_op& op);
    base::Result<Runnable> prepare(const whet_op& op, const Candidate& candidate);
    base::Result<Arena*> arena_of(bool packed, size_t bytes);

    ExecutorSettings settings_;
    bool guarded_;
    CodeArena code_;
    std::list<std::unique_ptr<OpContext>> contexts_;
    Arena arenas_[2];
    uint64_t clock_ = 0;
};

base::Result<OpContext*> LocalExecutor::context_of(const whet_op& op) {
    size_t total = arenas_[0].memory.bytes() + arenas_[1].memory.bytes();
    for (auto& context : contexts_) {
        if (std::memcmp(&context->op(), &op, sizeof(op)) == 0) {
            context->last_use = ++clock_;
            return context.get();
        }
        total += context->memory_bytes();
    }
    WHET_TRY_VOID(check_operands(op, settings_.memory_bytes));
    // Make room: half of the budget is for contexts, the rest for timing, scratch and code.
    while (!contexts_.empty() && total > settings_.memory_bytes / 2) {
        const auto oldest = std::min_element(
            contexts_.begin(), contexts_.end(),
            [](const auto& a, const auto& b) { return a->last_use < b->last_use; });
        total -= (*oldest)->memory_bytes();
        contexts_.erase(oldest);
    }
    WHET_TRY(auto context, OpContext::make(op, guarded_, settings_.seed));
    context->last_use = ++clock_;
    contexts_.push_back(std::move(context));
    return contexts_.back().get();
}

base::Result<Runnable> LocalExecutor::prepare(const whet_op& op, const Candidate& candidate) {
    Runnable runnable;
    WHET_TRY(jit::Plan plan, jit::lower(op, candidate.schedule, settings_.isa));
    // Two independent proofs of every address: in closed form here, by guard pages where there are
    // any.
    WHET_TRY_VOID(jit::prove_addresses(plan));
    if (settings_.isa != jit::Isa::portable) {
        if (candidate.kernels.size() != plan.kernels.size()) {
            return make_error(Code::internal, "got %zu microkernels, expected %zu",
                              candidate.kernels.size(), plan.kernels.size());
        }
        for (const KernelRef& kernel : candidate.kernels) {
            if (!kernel->proven && !guarded_) {
                return make_error(Code::verify_failed,
                                  "the code is not proven and this forge cannot contain it");
            }
            WHET_TRY(auto* const function, code_.load(kernel->id, kernel->blob));
            runnable.functions.push_back(function);
            runnable.kernel_ids.push_back(kernel->id);
        }
    }
    runnable.plan = std::make_shared<jit::Plan>(std::move(plan));
    return runnable;
}

base::Result<LocalExecutor::Arena*> LocalExecutor::arena_of(bool packed, size_t bytes) {
    Arena& arena = arenas_[packed];
    const size_t wanted = std::max(kRotationBytes, (bytes + 8191) / 4096 * 4096);
    if (arena.memory.bytes() >= wanted) return &arena;
    arena.memory = GuardedBuffer();
    WHET_TRY(arena.memory, GuardedBuffer::make(wanted, Edge::end, guarded_));
    if (packed) arena.memory.prefer_huge_pages();
    // Values do not matter for time, but subnormal ones do: ordinary ones, bounded so that sums
    // stay finite. Two of them are an ordinary f64 value too, of about 1e-5.
    float* values = arena.memory.floats();
    constexpr size_t kPattern = 1021;
    for (size_t i = 0; i < wanted / sizeof(float); ++i) {
        values[i] = 0.5f + static_cast<float>(i % kPattern) * (0.5f / kPattern);
    }
    return &arena;
}

void LocalExecutor::measure(OpContext& context, const Runnable& candidate,
                            const Runnable* incumbent, const TrialOptions& options,
                            TrialResult& result) {
    size_t weights = 0, scratch_bytes = 0, shared = 0;
    for (const Runnable* runnable : {&candidate, incumbent != nullptr ? incumbent : &candidate}) {
        const jit::Plan& plan = *runnable->plan;
        for (const jit::PackLayout& layout : plan.frozen) weights = std::max(weights, layout.bytes);
        shared = std::max(shared, (plan.shared_bytes + 63) / 64 * 64);
        scratch_bytes = std::max(scratch_bytes, plan.private_bytes);
    }
    if (context.op().operand_count > WHET_B) {
        weights = std::max(weights, bytes_of(context.op(), WHET_B));
    }
    auto scratch = context.scratch(shared + scratch_bytes);
    auto arena = arena_of(candidate.plan->frozen[WHET_B].id != 0, weights);
    if (!scratch || !arena) {
        result.reason = (!arena ? arena.error() : scratch.error()).message;
        return;
    }
    // Slices may read shared scratch that this call did not pack.
    const GuardedBuffer& values = (*arena)->memory;
    if (shared != 0) std::memcpy(*scratch, values.data(), std::min(shared, values.bytes()));
    const SampleSize size = sample_size(context.call_ns(), options);
    TimedPlan a(context, candidate, size, values, (*arena)->at, *scratch, shared);
    if (incumbent == nullptr) {
        const auto sample = [&] { return a.sample(); };
        const PairedResult self = run_paired(sample, sample, kControlQuads, true);
        result.measured = self.quads > 0;
        result.candidate_ns = (self.a_ns + self.b_ns) / 2;
        result.control = self.estimate.ratio;
        result.quads = self.quads;
        result.rejected_quads = self.rejected_quads;
        return;
    }
    TimedPlan b(context, *incumbent, size, values, (*arena)->at, *scratch, shared);
    const auto sample_a = [&] { return a.sample(); };
    const auto sample_b = [&] { return b.sample(); };
    PairedResult paired = run_paired(sample_a, sample_b, options.max_quads, false);
    bool won = paired.decision == StoppingRule::Decision::win;
    result.promising = won || paired.estimate.ratio >= kPromising;
    if (won && options.retest) {
        // The winner of many is lucky as well as fast: only fresh samples count, and only on a
        // quiet machine.
        const PairedResult control = run_paired(sample_b, sample_b, kControlQuads, true);
        const PairedResult fresh = run_paired(sample_a, sample_b, kRetestQuads, true);
        result.control = control.estimate.ratio;
        const bool quiet = control.quads == kControlQuads &&
                           std::abs(std::log(result.control)) < std::log(kControlSpread);
        won = quiet && fresh.quads == kRetestQuads && fresh.estimate.low > 1 &&
              fresh.estimate.ratio >= StoppingRule::kMargin;
        paired.estimate = fresh.quads > 0 ? fresh.estimate : paired.estimate;
        paired.a_ns = fresh.a_ns;
        paired.b_ns = fresh.b_ns;
        paired.quads += fresh.quads;
        paired.rejected_quads += fresh.rejected_quads + control.rejected_quads;
    }
    result.measured = paired.quads > 0;
    result.won = won;
    result.candidate_ns = paired.a_ns;
    result.incumbent_ns = paired.b_ns;
    result.ratio = paired.estimate.ratio;
    result.low = paired.estimate.low;
    result.high = paired.estimate.high;
    result.quads = paired.quads;
    result.rejected_quads = paired.rejected_quads;
}

TrialResult LocalExecutor::run_trial(const whet_op& op, const Candidate& candidate,
                                     const Candidate* incumbent, const TrialOptions& options) {
    TrialResult result;
    code_.begin_group();
    auto context = context_of(op);
    if (!context) {
        result.reason = context.error().message;
        return result;
    }
    auto runnable = prepare(op, candidate);
    if (!runnable) {
        result.verdict =
            runnable.error().code == Code::device_error ? Verdict::failed : Verdict::wrong;
        result.reason = runnable.error().message;
        return result;
    }
    result = (*context)->verify(*runnable, options.reference_budget_ns, !options.measure);
    if ((*context)->damaged()) {
        contexts_.remove_if([&](const auto& held) { return held.get() == *context; });
        return result;
    }
    if (result.verdict != Verdict::right || !options.measure) return result;
    if (incumbent == nullptr) {
        measure(**context, *runnable, nullptr, options, result);
        return result;
    }
    auto other = prepare(op, *incumbent);
    if (!other) {
        result.reason = other.error().message;
        return result;
    }
    measure(**context, *runnable, &*other, options, result);
    return result;
}

TrialResult LocalExecutor::run_check(const std::vector<KernelRef>& kernels) {
    TrialResult result;
    result.verdict = Verdict::right;
    code_.begin_group();
    for (const KernelRef& kernel : kernels) {
        if (!kernel->proven && !guarded_) {
            result.verdict = Verdict::failed;
            result.reason = "the code is not proven and this forge cannot contain it";
            break;
        }
        auto function = code_.load(kernel->id, kernel->blob);
        auto checked =
            function ? check_microkernel(kernel->blob.spec, *function, guarded_, settings_.seed)
                     : base::Result<void>(function.error());
        if (checked) continue;
        result.verdict =
            checked.error().code == Code::verify_failed ? Verdict::wrong : Verdict::failed;
        result.reason = checked.error().message;
        break;
    }
    return result;
}

base::Result<MachineRecord> LocalExecutor::measure_machine(const BuiltKernel* kernel) {
    MachineRecord record;
    WHET_TRY(Arena* const arena, arena_of(false, 2 * kRotationBytes));
    code_.begin_group();
    if (kernel != nullptr && kernel->blob.spec.kind == jit::MicrokernelKind::tile &&
        kernel->blob.spec.element == jit::Element::f32) {
        // One tile, its operands in the first-level cache: the multiply-add units are all that it
        // waits for.
        constexpr int64_t kDepth = 128, kTiles = 64;
        WHET_TRY(auto* const function, code_.load(kernel->id, kernel->blob));
        const jit::MicrokernelSpec& spec = kernel->blob.spec;
        const int64_t width = spec.vectors * spec.lanes();
        WHET_TRY(
            GuardedBuffer result,
            GuardedBuffer::make(static_cast<size_t>(spec.rows * width) * 4, Edge::start, false));
        jit::TileArgs args{};
        args.scalar = arena->memory.floats();
        args.vector = arena->memory.floats() + 16384;
        args.dst = result.floats();
        args.taps = 1;
        args.k = kDepth;
        args.tiles = kTiles;
        args.lanes = width;
        args.scalar_row = kDepth;
        args.scalar_k = spec.scalar == jit::ScalarForm::packed ? spec.rows : 1;
        args.vector_k = width;
        args.dst_row = width;
        args.alpha = 1;
        args.finish = 1;
        const double flops = 2.0 * spec.rows * static_cast<double>(width) * kDepth * kTiles;
        for (int i = 0; i < 200; ++i) {  // the best of 200 short runs: a peak is a maximum
            const int64_t began = base::steady_ns();
            function(&args);
            record.peak_gflops = std::max(record.peak_gflops,
                                          flops / static_cast<double>(base::steady_ns() - began));
        }
    }
    // Bandwidth: sums over an area past the caches that one core owns, piece by piece: a piece
    // during which another thread ran shows as a slow one, so a high percentile of the pieces
    // counts.
    constexpr size_t kPiece = 256 * 1024;
    const float* values = arena->memory.floats();
    std::vector<double> rates;
    for (size_t at = 0; at + kPiece <= 2 * kRotationBytes / sizeof(float); at += kPiece) {
        const int64_t began = base::steady_ns();
        __m128 sum[4] = {};
        for (size_t j = at; j < at + kPiece; j += 16) {
            for (size_t k = 0; k < 4; ++k)
                sum[k] = _mm_add_ps(sum[k], _mm_loadu_ps(values + j + 4 * k));
        }
        const float keep =
            _mm_cvtss_f32(_mm_add_ps(_mm_add_ps(sum[0], sum[1]), _mm_add_ps(sum[2], sum[3])));
        const auto ns = static_cast<double>(base::steady_ns() - began);
        if (keep >= 0 && ns > 0) rates.push_back(kPiece * sizeof(float) / ns);
    }
    std::sort(rates.begin(), rates.end());
    if (!rates.empty()) record.stream_gbs = rates[rates.size() * 9 / 10];
    arena->memory = GuardedBuffer();  // twice what trials need
    // Without generated code: one multiply and one add a cycle, the most that the interpreter could
    // reach.
    if (record.peak_gflops == 0) record.peak_gflops = 2 * base::cycles_per_ns();
    return record;
}

}  // namespace

std::unique_ptr<Executor> make_local_executor(const ExecutorSettings& settings, bool guarded) {
    return std::make_unique<LocalExecutor>(settings, guarded);
}

}  // namespace whet::runtime::forge
