// SPDX-License-Identifier: Apache-2.0
// Paired background timing of the original and a plan.
#include "runtime/trial/background_timing.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "base/clock.hpp"
#include "runtime/dispatch/operation.hpp"
#include "runtime/trial/live_trial.hpp"

namespace whet::runtime {
namespace {

constexpr size_t kMostCopies = 16;  // of the weights
constexpr double kLeastSampleNs =
    40e3;                            // one timed sample: long against the 200 ns of the CPU clock
constexpr double kMostWallNs = 3e9;  // of one contest of short calls, where the machine is full
constexpr double kMostStretch = 8;   // of wall time against CPU time, for the few quads of long calls
constexpr double kLongCallNs = 20e6;  // a call that warms its own operands: no others before it
constexpr int kLeastQuads = 8;  // two in each layout
constexpr int kMostQuads = 60;
constexpr int kFewestQuads = 4;          // else the contest tells nothing
constexpr size_t kKeptBytes = 4u << 20;  // of operands, between contests
constexpr double kNarrowEnough = 0.015;  // half width of the log-ratio's interval

/// Where operands lie within their pages decides which of them share sets of the caches, and by
/// that up to a third of an operation's time; a program's own lie anywhere. So the contest is held
/// in several layouts: that of large blocks of malloc, then such as a generator draws.
constexpr int kLayouts = 4;
constexpr size_t kLayoutSlack = 4096;  // bytes after each operand, of which a layout skips some
constexpr size_t kLine = 64;

size_t page_offset(int layout, uint32_t operand) {
    if (layout == 0) return kLine;
    uint32_t state = static_cast<uint32_t>(layout) * 2654435761u + operand * 40503u;
    state ^= state >> 15;
    state *= 2246822519u;
    return (state >> 8) % (kLayoutSlack / kLine) * kLine;
}

size_t operand_bytes(const whet_view& view) {
    const size_t bytes = static_cast<size_t>(element_span(view)) * element_bytes(view);
    return (bytes + 4095) / 4096 * 4096 + kLayoutSlack;
}

/// What a contest takes, in bytes.
struct Sizes {
    size_t operands[WHET_MAX_OPERANDS] = {};
    size_t packs[WHET_MAX_OPERANDS] = {};  ///< of one packed copy; 0: does not come packed
    size_t copies = 0;                     ///< of the weights, and of their packs
    size_t total = 0, packed = 0;          ///< all operands and scratch; all packed copies
};

Sizes sizes_of(const whet_op& op, const Record& record, size_t cold_bytes, size_t most_bytes) {
    const auto pages = [](size_t bytes) { return (bytes + 4095) / 4096 * 4096; };
    Sizes sizes;
    for (uint32_t i = 0; i < op.operand_count; ++i) {
        sizes.total += sizes.operands[i] = operand_bytes(op.operands[i]);
        if (record.pack_mask >> i & 1) sizes.packs[i] = pages(record.plan.frozen[i].bytes);
        if (i != WHET_B) sizes.packed += sizes.packs[i];
    }
    sizes.total += pages(record.scratch_bytes);
    if (op.operand_count <= WHET_B) return sizes;
    // Weights larger than the caches are cold by themselves.
    const size_t weights = sizes.operands[WHET_B], pack = sizes.packs[WHET_B];
    const size_t least = weights > 2 * cold_bytes ? 1 : 2;
    sizes.copies =
        std::clamp<size_t>(cold_bytes / std::max<size_t>(weights, 1) + 1, least, kMostCopies);
    while (sizes.copies > least && sizes.total + sizes.copies * (weights + pack) > most_bytes)
        --sizes.copies;
    sizes.total += (sizes.copies - 1) * weights;
    sizes.packed += sizes.copies * pack;
    return sizes;
}

/// Cheap values in [-1, 1), never denormal.
template <typename T>
void fill_as(void* data, size_t bytes) {
    auto* const values = static_cast<T*>(data);
    uint32_t state = 12345;
    for (size_t i = 0; i < bytes / sizeof(T); ++i) {
        state = state * 1664525u + 1013904223u;
        values[i] = static_cast<T>(static_cast<int32_t>(state)) * (T{1} / T{2147483648});
    }
}
void fill(const whet_view& view, void* data, size_t bytes) {
    view.dtype == WHET_F64 ? fill_as<double>(data, bytes) : fill_as<float>(data, bytes);
}

long switches() {
    rusage usage{};
    ::getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw;
}

/// The original is somebody else's code, and its library's destructors run when the host exits: no call may be in it
/// then, and none may begin.
std::atomic<bool> host_ends{false};
std::atomic<pid_t> inside_original{0};  ///< the process that is in one; a forked child inherits the number, not the call

void wait_for_original() {
    constexpr timespec kLook{0, 100'000};
    constexpr int kLooks = 20'000;  // two seconds: longer than any contest's call
    host_ends.store(true);
    for (int i = 0; i < kLooks && inside_original.load() == ::getpid(); ++i) ::nanosleep(&kLook, nullptr);
}

void call_original(whet_original original, const whet_op* op, void* const* operands, void* context) {
    inside_original.store(::getpid());
    while (host_ends.load()) {
        inside_original.store(0);
        ::pause();  // the process is about to be gone
    }
    original(op, operands, context);
    inside_original.store(0);
}

/// The two sides with all their memory; side 0 is the original, side 1 the plan.
struct Contest {
    const whet_op& op;
    whet_original original;
    void* context;
    const Record& record;
    void* operands[WHET_MAX_OPERANDS] = {};
    std::vector<void*> weights;                        // copies of operand B
    std::vector<const void*> packed;                   // their packed copies, if B comes packed
    const void* packed_other[WHET_MAX_OPERANDS] = {};  // of other frozen operands
    std::byte* scratch = nullptr;
    size_t next[2] = {0, 0};

    /// blocks[i]: where operand i may begin; null for the weights.
    std::byte* blocks[WHET_MAX_OPERANDS] = {};
    void lay_out(int layout) {
        for (uint32_t i = 0; i < WHET_MAX_OPERANDS; ++i) {
            if (blocks[i]) operands[i] = blocks[i] + page_offset(layout, i);
        }
    }

    void call(int side) {
        size_t& at = next[side];
        if (!weights.empty()) {
            if (++at >= weights.size()) at = 0;
            operands[WHET_B] = weights[at];
        }
        if (side == 0 && original) {
            call_original(original, &op, operands, context);
            return;
        }
        jit::Operands call_operands{operands};
        for (int i = 1; i < WHET_MAX_OPERANDS; ++i) call_operands.packed[i] = packed_other[i];
        if (!packed.empty()) call_operands.packed[WHET_B] = packed[at];
        jit::run_plan(record.plan, record.functions.data(), call_operands, scratch);
    }
    /// CPU time, not wall time: this thread has the lowest priority and is often switched out.
    double time(int side, int repeats) {
        const int64_t begin = base::thread_cpu_ns();
        for (int i = 0; i < repeats; ++i) call(side);
        return static_cast<double>(base::thread_cpu_ns() - begin) / repeats;
    }
};

double median_of(std::vector<double> values) {
    if (values.empty()) return 0;
    std::nth_element(values.begin(),
                     values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
    return values[values.size() / 2];
}

BackgroundTimes run_contest(Contest& contest, double most_ns) {
    const int64_t begin = base::thread_cpu_ns(), wall_begin = base::steady_ns();
    // Warm: code, activations, the original's own caches.
    double once = std::max(1.0, std::min(contest.time(0, 1), contest.time(1, 1)));
    const bool is_long = once > kLongCallNs;
    if (!is_long) {
        for (int side = 0; side < 2; ++side) contest.time(side, 2);
        once = std::max(1.0, std::min(contest.time(0, 1), contest.time(1, 1)));
    }
    const int repeats = std::clamp(static_cast<int>(kLeastSampleNs / once), 1, 1000);
    const double most_wall_ns = std::max(kMostWallNs, kMostStretch * 4 * kFewestQuads * once);
    std::vector<double> log_ratios, times[2], spare_ratios, spare[2];
    for (int quad = 0; quad < kMostQuads; ++quad) {
        const int first = quad & 1;
        if (quad % 2 == 0) {
            contest.lay_out(quad / 2 % kLayouts);
            for (int side = 0; side < 2 && !is_long; ++side) contest.time(side, 1);
        }
        const long before = switches();
        double sum[2] = {0, 0};
        for (const int side : {first, 1 - first, 1 - first, first})
            sum[side] += contest.time(side, repeats);
        // A quad that was switched out found cold caches: it counts only where there is nothing
        // better. A long call hardly notices.
        const bool disturbed = !is_long && switches() != before;
        (disturbed ? spare_ratios : log_ratios).push_back(std::log(sum[0] / sum[1]));
        for (int side = 0; side < 2; ++side)
            (disturbed ? spare : times)[side].push_back(sum[side] / 2);
        // Calls that are long against the budget still get their few quads, and some more where the
        // plan seems to win.
        const Centre centre = centre_of(log_ratios);
        const bool hopeful = centre.median > 0 && centre.low <= 0;
        const bool enough = log_ratios.size() + spare_ratios.size() >=
                            static_cast<size_t>(hopeful ? kLeastQuads : kFewestQuads);
        if ((enough && static_cast<double>(base::thread_cpu_ns() - begin) > most_ns) ||
            static_cast<double>(base::steady_ns() - wall_begin) > most_wall_ns ||
            (log_ratios.size() >= kLeastQuads && centre.high - centre.median < kNarrowEnough))
            break;
    }
    if (log_ratios.size() < kLeastQuads) {
        log_ratios.insert(log_ratios.end(), spare_ratios.begin(), spare_ratios.end());
        for (int side = 0; side < 2; ++side)
            times[side].insert(times[side].end(), spare[side].begin(), spare[side].end());
    }
    BackgroundTimes result;
    const Centre centre = centre_of(log_ratios);
    result.quads = static_cast<int>(log_ratios.size());
    result.ratio = std::exp(centre.median);
    result.low = std::exp(centre.low);
    result.high = std::exp(centre.high);
    result.original_ns = median_of(times[0]);
    result.plan_ns = median_of(times[1]);
    return result;
}

}  // namespace

BackgroundTimer::~BackgroundTimer() {
    for (const Block& block : {operands_, packed_})
        if (block.begin) ::munmap(block.begin, block.bytes);
}

base::Result<std::byte*> BackgroundTimer::memory_of(Block& block, size_t bytes, bool huge_pages) {
    if (bytes <= block.bytes) return block.begin;
    void* const fresh =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fresh == MAP_FAILED)
        return base::make_error(base::Code::out_of_budget,
                                "no memory for %zu bytes of trial operands", bytes);
    if (block.begin) ::munmap(block.begin, block.bytes);
    if (huge_pages) ::madvise(fresh, bytes, MADV_HUGEPAGE);
    block = {static_cast<std::byte*>(fresh), bytes};
    return block.begin;
}

base::Result<BackgroundTimes> BackgroundTimer::compare(const whet_op& op, whet_original original,
                                                       void* context, const Record& record,
                                                       size_t cold_bytes, size_t most_bytes,
                                                       double most_ns) {
    static const bool registered = std::atexit(wait_for_original) == 0;
    if (!registered) original = nullptr;
    Contest contest{op, original, context, record, {}, {}, {}, {}, nullptr, {0, 0}};
    const Sizes sizes = sizes_of(op, record, cold_bytes, most_bytes);
    const size_t copies = sizes.copies;
    if (sizes.total + sizes.packed > most_bytes) {
        return base::make_error(base::Code::out_of_budget,
                                "trial operands need %zu bytes, %zu are allowed",
                                sizes.total + sizes.packed, most_bytes);
    }
    WHET_TRY(std::byte * at, memory_of(operands_, sizes.total, false));
    std::byte* packed_at = nullptr;
    if (sizes.packed > 0) {
        WHET_TRY(packed_at, memory_of(packed_, sizes.packed, true));
    }
    const auto take = [&at](size_t bytes) { return std::exchange(at, at + bytes); };
    const auto take_packed = [&packed_at](size_t bytes) {
        return std::exchange(packed_at, packed_at + bytes);
    };
    for (uint32_t i = 0; i < op.operand_count; ++i) {
        if (i == WHET_B && copies > 0) continue;
        contest.blocks[i] = take(sizes.operands[i]);
        fill(op.operands[i], contest.blocks[i], sizes.operands[i]);
    }
    contest.lay_out(0);
    for (size_t copy = 0; copy < copies; ++copy) {
        void* const weights =
            take(sizes.operands[WHET_B]) + page_offset(static_cast<int>(copy) % kLayouts, WHET_B);
        const whet_view& b = op.operands[WHET_B];
        fill(b, weights, static_cast<size_t>(element_span(b)) * element_bytes(b));
        contest.weights.push_back(weights);
        if (sizes.packs[WHET_B] == 0) continue;
        contest.packed.push_back(take_packed(sizes.packs[WHET_B]));
        jit::pack_frozen(record.plan, WHET_B, weights, const_cast<void*>(contest.packed.back()));
    }
    for (int i = 1; i < WHET_MAX_OPERANDS; ++i) {
        if (i == WHET_B || sizes.packs[i] == 0) continue;
        void* const copy = take_packed(sizes.packs[i]);
        jit::pack_frozen(record.plan, i, contest.operands[i], copy);
        contest.packed_other[i] = copy;
    }
    contest.scratch = at;
    const BackgroundTimes times = run_contest(contest, most_ns);
    for (const Block& block : {operands_, packed_})
        if (block.bytes > kKeptBytes) ::madvise(block.begin, block.bytes, MADV_DONTNEED);
    if (times.quads < kFewestQuads)
        return base::make_error(base::Code::out_of_budget,
                                "the machine is too busy to time anything");
    return times;
}

}  // namespace whet::runtime
