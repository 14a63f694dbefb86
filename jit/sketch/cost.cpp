// SPDX-License-Identifier: Apache-2.0
// A roofline per cache level with the overheads of tiles and calls; constants are cycles, measured
// on Zen 3 and Sapphire Rapids and rounded: the search corrects what they miss.
#include "jit/sketch/cost.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "jit/op/computation.hpp"
#include "jit/plan/nest.hpp"

namespace whet::jit {

namespace {

constexpr double kFmaPerCycle = 2;    // vector multiply-adds
constexpr double kLoadsPerCycle = 2;  // vector or broadcast loads
constexpr double kLoadContention =
    0.12;  // cycles that one load takes from the multiply-adds beside it
constexpr double kFmaLatency =
    4.4;  // cycles between two links of one chain, and what the scheduler misses
constexpr double kCallCycles = 60;         // driver and prologue of one microkernel call
constexpr double kTileCycles = 20;         // start and end of one register tile
constexpr double kTapCycles = 6;           // one step of the tap loop
constexpr double kStepCycles = 0.6;        // loop control of one unrolled round
constexpr double kTransposeCycles = 0.2;   // per element of a transposing pack
constexpr double kCopyCycles = 0.12;       // per element of a contiguous copy
constexpr double kRowCopyCycles = 8;       // per row of an image copy
constexpr double kStrideCycles = 0.3;      // per element of an image copy that separates planes
constexpr double kGatherCycles = 1.2;      // per element copied by strides
constexpr double kTransposedLoads = 4;     // loads a step that transpose a vector in registers
constexpr double kTransposedShuffles = 5;  // and what it takes from the ports of the multiply-adds
constexpr double kFusedCycles = 0.16;  // per element that the first row tile transposes and stores
constexpr double kFetchedPastEnd =
    1024;  // bytes that the processor's own prefetchers read past a run of them
constexpr double kPrefetchCycles = 0.06;  // one prefetch among multiply-adds
constexpr double kScalarLineCycles = 3;   // one line of the broadcast side that is not in L1
constexpr double kEasySums = 24,
                 kCrowded = 1.03;  // AVX-512 tiles with more sums are slower than their shape says
constexpr double kUsableCache = 0.7;  // share of a cache that one operand may count on
constexpr double kReusedCache =
    0.5;  // share of the second level for two blocks that loops come back to

constexpr double kBlockCache =
    0.4;  // share of the second-level cache for a block that a loop sweeps again and again

// Shares of a time that are felt beside a longer one.
constexpr double kNearFelt = 0.25, kFarFelt = 0.5, kStreamFelt = 0.9, kAheadFelt = 0.2;

struct Traffic {
    double l2 = 0, l3 = 0;
};

/// Bytes of `block` re-read because the loop over the other operand's axis runs outside its own
/// loops. counts and order as in the nest; `own` are the two axes that index the operand, `other`
/// the one that does not.
Traffic reuse(const int64_t counts[3], const int8_t order[3], int other, double block_bytes,
              double other_bytes, const MachineModel& machine) {
    double inside = block_bytes;  // the operand's bytes touched between two uses of one of them
    double total = block_bytes;
    bool outside = true;
    for (int depth = 0; depth < 3; ++depth) {
        if (order[depth] == other) {
            outside = false;
            continue;
        }
        total *= static_cast<double>(counts[order[depth]]);
        if (!outside) inside *= static_cast<double>(counts[order[depth]]);
    }
    const double repeats = static_cast<double>(counts[other]);
    Traffic traffic;
    traffic.l3 = total;
    if (repeats > 1) {
        const bool fits = inside + other_bytes < kReusedCache * machine.l2_bytes;
        (fits ? traffic.l2 : traffic.l3) += total * (repeats - 1);
    }
    return traffic;
}

/// Bytes of the second-level cache that a block of rows keeps busy. Rows in place at a stride of
/// whole pages, of which a segment reads a part, meet in a part of the cache's sets.
double footprint_of(const Access& access, double block_bytes, double row_bytes, Element element) {
    constexpr int64_t kPage = 4096;
    if (access.source != Source::in_place || access.channel_stride != 1) return block_bytes;
    const int64_t period = std::gcd(access.axis_stride * int64_t{bytes_of(element)}, kPage);
    return block_bytes * std::max(1.0, static_cast<double>(period) / row_bytes);
}

/// `size`: of an element, 1 for f32 and 2 for f64.
double pack_cycles(const Access& access, double elements, double size) {
    if (access.axis_stride == 1) return elements * kCopyCycles * size;
    if (access.channel_stride == 1) return elements * kTransposeCycles * size;
    return elements * kGatherCycles;
}

/// Cycles of one reduction step of a tile with `rows` rows.
double step_cycles(const Contraction& c, const Plan& plan, double rows) {
    const double vectors = plan.schedule.vectors;
    const bool moving = c.vector_row_stride != 0;
    if (c.transposed_vector)
        return std::max({(rows + kTransposedShuffles) / kFmaPerCycle,
                         (rows + kTransposedLoads) / kLoadsPerCycle, kFmaLatency}) +
               kStepCycles / kTransposedUnroll;
    const double fma = rows * vectors / kFmaPerCycle;
    const double loads = (moving ? rows * vectors + 1 : rows + vectors) / kLoadsPerCycle;
    const bool crowded = plan.isa == Isa::avx512 && rows * vectors > kEasySums && !moving;
    const double prefetches = !c.ahead ? 0 : c.most_ahead_step > 64 ? vectors : 1;
    return std::max({fma * (crowded ? kCrowded : 1), loads, kFmaLatency}) +
           kLoadContention * 2 * loads + kPrefetchCycles * prefetches +
           kStepCycles / plan.schedule.unroll;
}

/// Adds one contraction of one (batch, group, strip), `times` times.
void add_contraction(const Contraction& c, const Plan& plan, const MachineModel& machine,
                     double times, PlanCost& cost) {
    if (c.degenerate) return;
    const double lane_tiles = static_cast<double>(c.all_lane_tiles(c.lanes));
    const double row_groups = static_cast<double>(c.row_groups.size()),
                 lane_groups = static_cast<double>(c.lane_groups.size());
    const double depth = static_cast<double>(c.taps * c.channels),
                 segments = static_cast<double>(c.segments);
    const double wide = row_groups * static_cast<double>(c.wide_tiles);
    const double narrow = static_cast<double>(c.all_row_tiles()) - wide;
    const int64_t counts[3] = {(c.all_row_tiles() + c.row_block - 1) / c.row_block,
                               (c.all_lane_tiles(c.lanes) + c.lane_block - 1) / c.lane_block,
                               c.segments};
    static constexpr int8_t kOrders[][3] = {{1, 2, 0}, {2, 1, 0}, {0, 2, 1},
                                            {2, 0, 1}, {1, 0, 2}, {0, 1, 2}};
    const int8_t* order = kOrders[static_cast<int>(c.order)];

    const double steps = wide * step_cycles(c, plan, c.narrow_rows + 1) +
                         narrow * step_cycles(c, plan, c.narrow_rows);
    cost.arithmetic_cycles += times * lane_tiles * depth * steps;
    const double tiles = static_cast<double>(c.all_row_tiles()) * lane_tiles * segments;
    const double stores = plan.schedule.vectors * (c.narrow_rows + 0.5) * (segments > 1 ? 2 : 1);
    const double calls =
        lane_tiles * segments *
        std::max(static_cast<double>(counts[0]), c.uniform_row_groups ? 1.0 : row_groups);
    cost.overhead_cycles +=
        times * (tiles * (kTileCycles + stores +
                          (c.kernel_taps ? kTapCycles * static_cast<double>(c.taps) : 0)) +
                 calls * kCallCycles);
    cost.useful_share = static_cast<double>(c.lanes) * lane_groups / (lane_tiles * c.tile_lanes);

    const double block_depth = depth / segments, bytes = bytes_of(plan.element);
    const double vector_block =
        static_cast<double>(c.lane_block * c.tile_lanes) * block_depth * bytes;
    const double scalar_block =
        static_cast<double>(c.row_block * c.narrow_rows) * block_depth * bytes;
    // Within a block: the vector panel is read again for every row tile, the scalar block for every
    // lane tile.
    const double panel = static_cast<double>(c.tile_lanes) * block_depth * bytes;
    const double tile_rows = c.narrow_rows * block_depth * bytes;
    const double l1 = kUsableCache * machine.l1_bytes;
    // A panel stays in the first level from row tile to row tile as far as there is room for it.
    const double crowding = (panel + tile_rows) / machine.l1_bytes - 0.5;
    cost.l2_bytes +=
        times * tiles * panel * (c.row_block == 1 ? 1 : std::clamp(crowding / 0.75, 0.0, 1.0));
    if (panel + scalar_block > l1) {
        cost.overhead_cycles += times * tiles * tile_rows / 64 * kScalarLineCycles;
        (2 * panel + footprint_of(c.scalar, scalar_block, block_depth * bytes, plan.element) >
                 kBlockCache * machine.l2_bytes
             ? cost.l3_bytes
             : cost.l2_bytes) += times * tiles * tile_rows;
    }
    const double image_share =
        c.vector.place == Place::image ? 1.0 / static_cast<double>(c.taps) : 1.0;
    const Traffic vector =
        reuse(counts, order, 0, vector_block * image_share, scalar_block, machine);
    const Traffic scalar =
        reuse(counts, order, 1, scalar_block, vector_block * image_share, machine);
    cost.l2_bytes += times * (vector.l2 + scalar.l2);
    const auto add = [&](const Access& access, const Traffic& traffic, double whole) {
        // Weights of many batches or strips stay in the cache when they fit; the first reading is
        // cold.
        const bool operand = access.place == Place::a || access.place == Place::b;
        const bool repeated =
            access.outer.stride[0] == 0 && access.packed_outer.stride[0] == 0 && times > 1;
        const bool fits = whole < kUsableCache * machine.l2_bytes;
        const double cold =
            operand && access.place == Place::b ? whole * (repeated ? 1 : times) : 0;
        const double again = std::max(0.0, times * traffic.l3 - cold);
        if (c.transposed_vector && &access == &c.vector && segments > 1) {
            // Unless a row's next segment follows soon, the lines read past this one are read in
            // vain.
            const bool soon = (order[0] == 1 || (order[0] == 0 && order[1] == 1)) &&
                              2 * vector_block * segments < kBlockCache * machine.l2_bytes;
            if (!soon) cost.memory_bytes += cold * kFetchedPastEnd / (block_depth * bytes);
        }
        (fits && repeated ? cost.l2_bytes : cost.l3_bytes) += again;
        cost.memory_bytes += cold;
        if (c.ahead && &access == &c.vector && !(fits && repeated)) cost.ahead_bytes += again;
    };
    cost.ahead |= c.ahead;
    add(c.vector, vector, lane_groups * static_cast<double>(c.lanes) * depth * bytes);
    add(c.scalar, scalar, row_groups * static_cast<double>(c.rows) * depth * bytes);

    for (const bool scalar_side : {true, false}) {
        const Access& access = scalar_side ? c.scalar : c.vector;
        if (!is_copied(access.source)) continue;
        double repeats = 1;
        if (!access.whole && order[0] == (scalar_side ? 1 : 0) && counts[order[0]] > 1)
            repeats = static_cast<double>(counts[order[0]]);
        const double elements =
            (scalar_side ? static_cast<double>(c.rows) : lane_tiles * c.tile_lanes) * depth;
        cost.copy_cycles +=
            times * repeats *
            (access.source == Source::fused ? kFusedCycles * elements
                                            : pack_cycles(access, elements, bytes / 4));
        // Panels that do not stay in the first level are written to the second and read back from
        // it; their source passes through it too.
        const double written = access.whole  ? elements * bytes
                               : scalar_side ? scalar_block
                                             : vector_block;
        if (written > l1)
            (2 * written > kBlockCache * machine.l2_bytes ? cost.l3_bytes : cost.l2_bytes) +=
                times * repeats * elements * bytes * 2;
    }
    // The result is written, and for all but one segment read back.
    const double result = row_groups * lane_groups * static_cast<double>(c.rows) *
                          static_cast<double>(c.lanes) * bytes;
    if (result > l1) cost.l2_bytes += times * result * (2 * segments - 1);
}

void add_copies(const Nest& nest, double times, PlanCost& cost) {
    if (nest.image.enabled) {
        const ImageCopy& image = nest.image;
        const double rows = static_cast<double>(image.images * image.channels * image.planes_rows *
                                                image.planes_columns * image.plane_rows);
        const bool strided = image.stride_columns * image.source_column != 1;
        cost.copy_cycles += times * rows *
                            (kRowCopyCycles + static_cast<double>(image.pitch) *
                                                  (strided ? kStrideCycles : kCopyCycles));
    }
    if (nest.unpack.kind != UnpackKind::none) {
        const Unpack& u = nest.unpack;
        const double rows =
            static_cast<double>(u.images * u.channels * nest.strip_rows * u.phase_rows);
        const bool plain = u.kind == UnpackKind::pitched;
        cost.copy_cycles +=
            times * rows *
            (kRowCopyCycles + static_cast<double>(u.columns) * (plain ? kCopyCycles : 0.6));
    }
}

}  // namespace

double PlanCost::ns(const MachineModel& machine) const {
    const double compute = arithmetic_cycles + overhead_cycles + copy_cycles;
    const double near = l2_bytes / machine.l2_bytes_per_cycle;
    const double far = (l3_bytes - ahead_bytes) / machine.l3_bytes_per_cycle;
    const double streamed =
        memory_bytes / machine.memory_bytes_per_cycle + ahead_bytes / machine.l3_bytes_per_cycle;
    // What the core waits for in passing overlaps with arithmetic in part; a stream of cold weights
    // hardly does, unless it is fetched while the panel before it is used.
    const double busy = std::max({compute + kNearFelt * near + kFarFelt * far, near, far});
    const double felt = ahead ? kAheadFelt : kStreamFelt;
    return (std::max(busy, streamed) + felt * std::min(busy, streamed)) / machine.cycles_per_ns;
}

PlanCost cost_of(const Plan& plan, const MachineModel& machine) {
    PlanCost cost;
    const Nest& nest = *plan.nest;
    if (nest.softmax_kernel >= 0) {
        const whet_view& dst = plan.op.operands[WHET_DST];
        const double rows = static_cast<double>(dst.extents[0]),
                     columns = static_cast<double>(dst.extents[1]);
        const double lanes = lanes_of(plan.isa);
        cost.arithmetic_cycles = rows * std::ceil(columns / lanes) * 12;
        cost.overhead_cycles = rows * (60.0 / plan.schedule.rows + 40) +
                               static_cast<double>(plan.phases[0].task_count) * kCallCycles;
        cost.l2_bytes = rows * columns * 8;
        return cost;
    }
    const double times =
        static_cast<double>(nest.outer_extent[0] * nest.outer_extent[1] * nest.outer_extent[2]);
    for (const Contraction& c : nest.contractions) add_contraction(c, plan, machine, times, cost);
    add_copies(nest, times, cost);
    return cost;
}

void features_of(const Plan& plan, const MachineModel& machine, std::span<float> out) {
    std::fill(out.begin(), out.end(), 0.0f);
    const PlanCost cost = cost_of(plan, machine);
    const auto magnitude = [](double value) { return static_cast<float>(std::log2(1 + value)); };
    const Schedule& s = plan.schedule;
    const float values[] = {
        magnitude(cost.arithmetic_cycles),
        magnitude(cost.overhead_cycles),
        magnitude(cost.copy_cycles),
        magnitude(cost.l2_bytes),
        magnitude(cost.l3_bytes),
        magnitude(cost.memory_bytes),
        static_cast<float>(cost.useful_share),
        magnitude(flops_of(plan.op)),
        magnitude(compulsory_bytes_of(plan.op)),
        static_cast<float>(s.structure),
        static_cast<float>(s.scalar),
        static_cast<float>(s.vector),
        static_cast<float>(s.order),
        static_cast<float>(s.rows),
        static_cast<float>(s.vectors),
        static_cast<float>(s.unroll),
        static_cast<float>(s.prefetch),
        magnitude(s.row_block),
        magnitude(s.lane_block),
        magnitude(s.outer_block),
        static_cast<float>(s.parallel),
        magnitude(static_cast<double>(plan.private_bytes)),
        static_cast<float>(plan.kernels.size()),
        static_cast<float>(cost.ns(machine) > 0 ? std::log2(cost.ns(machine)) : 0)};
    static_assert(std::size(values) == kFeatureCount);
    std::copy_n(values, std::min<size_t>(kFeatureCount, out.size()), out.begin());
}

double bound_ns(const whet_op& op, double peak_gflops, double stream_gbs) noexcept {
    const double lanes_share = element_of(op) == Element::f64 ? 0.5 : 1;  // peak: of f32
    return std::max(flops_of(op) / (peak_gflops * lanes_share),
                    compulsory_bytes_of(op) / stream_gbs);
}

double flops_of(const whet_op& op) noexcept {
    const auto computation = computation_of(op);
    if (!computation || is_empty(op)) return 0;
    double results = 1;
    for (int d = 0; d < op.operands[WHET_DST].rank; ++d)
        results *= static_cast<double>(op.operands[WHET_DST].extents[d]);
    if (computation->combiner == Combiner::softmax)
        return results * 16;  // the multiply-adds of exp and the scaling
    // A transposed convolution has products per input position; counted so, no gap is counted.
    if (op.kind == WHET_CONV_TRANSPOSE) {
        results = static_cast<double>(op.operands[WHET_B].extents[1]);
        for (int d = 0; d < op.operands[WHET_A].rank; ++d)
            results *= static_cast<double>(op.operands[WHET_A].extents[d]);
        return 2 * results * static_cast<double>(extent_of(*computation, AxisKind::tap));
    }
    return 2 * results *
           static_cast<double>(extent_of(*computation, AxisKind::tap) *
                               extent_of(*computation, AxisKind::channel));
}

double compulsory_bytes_of(const whet_op& op) noexcept {
    double bytes = 0;
    for (uint32_t i = 0; i < op.operand_count; ++i) {
        double elements = 1;
        for (int d = 0; d < op.operands[i].rank; ++d)
            if (op.operands[i].strides[d] != 0 || op.operands[i].extents[d] == 0)
                elements *= static_cast<double>(op.operands[i].extents[d]);
        bytes += bytes_of(element_of(op)) * elements * (i == WHET_DST && op.beta != 0 ? 2 : 1);
    }
    return bytes;
}

}  // namespace whet::jit
