// SPDX-License-Identifier: Apache-2.0
// The knobs of an operation's schedules and the analytical draft over them.
#include "jit/sketch/space.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "jit/op/computation.hpp"
#include "jit/plan/nest.hpp"
#include "jit/plan/slice.hpp"
#include "jit/sketch/cost.hpp"

namespace whet::jit {

namespace {

enum Knob {
    kRows,
    kVectors,
    kUnroll,
    kPrefetch,
    kOrder,
    kRowBlock,
    kLaneBlock,
    kOuterBlock,
    kFold,
    kKnobs
};
constexpr const char* kKnobNames[kKnobs] = {"rows",       "vectors",     "unroll",
                                            "prefetch",   "order",       "row_block",
                                            "lane_block", "outer_block", "fold"};

/// Values of each knob for one sketch.
struct Knobs {
    std::vector<int> values[kKnobs];
};

void set_knob(Schedule& s, int knob, int value) {
    switch (knob) {
        case kRows: s.rows = static_cast<uint8_t>(value); break;
        case kVectors: s.vectors = static_cast<uint8_t>(value); break;
        case kUnroll: s.unroll = static_cast<uint8_t>(value); break;
        case kPrefetch: s.prefetch = static_cast<uint8_t>(value); break;
        case kOrder: s.order = static_cast<LoopOrder>(value); break;
        case kRowBlock: s.row_block = static_cast<uint16_t>(value); break;
        case kLaneBlock: s.lane_block = static_cast<uint16_t>(value); break;
        case kOuterBlock: s.outer_block = static_cast<uint16_t>(value); break;
        default: s.fold = static_cast<uint16_t>(value); break;
    }
}
int get_knob(const Schedule& s, int knob) {
    const int values[kKnobs] = {
        s.rows,      s.vectors,    s.unroll,      s.prefetch, static_cast<int>(s.order),
        s.row_block, s.lane_block, s.outer_block, s.fold};
    return values[knob];
}

/// The smallest tile heights of every distinct tile count: 32 rows give 11 (3 tiles), 16 (2), 8
/// (4), ...
std::vector<int> tile_heights(int64_t rows, int most) {
    std::vector<int> heights;
    int64_t last = -1;
    for (int height = static_cast<int>(std::min<int64_t>(most, rows)); height >= 1; --height) {
        const int64_t tiles = (rows + height - 1) / height;
        if (tiles == last)
            heights.back() = height;
        else
            heights.push_back(height);
        last = tiles;
    }
    std::reverse(heights.begin(), heights.end());
    return heights;
}

/// 1, 2, 4, ... below `tiles`, then 0 (all).
std::vector<int> block_sizes(int64_t tiles) {
    std::vector<int> sizes;
    for (int64_t size = 1; size < tiles && size <= 4096; size *= 2)
        sizes.push_back(static_cast<int>(size));
    sizes.push_back(0);
    return sizes;
}

std::vector<int> strip_sizes(int64_t rows) {
    std::vector<int> sizes;
    for (int64_t size = 1; size < rows && size <= 256; ++size)
        if (rows % size == 0 || (size & (size - 1)) == 0) sizes.push_back(static_cast<int>(size));
    sizes.push_back(0);
    return sizes;
}

/// Divisors of `extent` up to `most`.
std::vector<int> divisors(int64_t extent, int64_t most) {
    std::vector<int> values;
    for (int64_t value = 1; value <= std::min(extent, most); ++value)
        if (extent % value == 0) values.push_back(static_cast<int>(value));
    return values;
}

Knobs knobs_of(const whet_op& op, const Schedule& base, Isa isa) {
    Knobs knobs;
    Schedule probe = base;
    const int lanes = lanes_of(isa, element_of(op));
    const auto plan = lower(op, probe, isa);
    knobs.values[kUnroll] = {1, 2, 4, 8};
    knobs.values[kPrefetch] = {0};
    knobs.values[kOrder] = {0};
    knobs.values[kRowBlock] = knobs.values[kLaneBlock] = knobs.values[kOuterBlock] = {0};
    knobs.values[kFold] = {1};
    if (base.structure == Structure::row_softmax) {
        knobs.values[kRows] = {1};
        knobs.values[kVectors] = {1};
        knobs.values[kUnroll] = {1};
        knobs.values[kRowBlock] =
            block_sizes(std::min<int64_t>(op.operands[WHET_DST].extents[0], 512));
        return knobs;
    }
    if (!plan) return knobs;
    const Contraction& c = plan->nest->contractions.front();
    knobs.values[kRows] = tile_heights(c.rows, isa == Isa::avx512 ? 28 : 14);
    for (int v = 1; v <= 8; ++v)
        if (v == 1 || (v - 1) * lanes < c.lanes) knobs.values[kVectors].push_back(v);
    if (base.structure == Structure::depthwise)
        knobs.values[kUnroll] = {1};
    else if (c.transposed_vector) {
        knobs.values[kVectors] = {1};
        knobs.values[kUnroll] = {4};  // of the schedule; the microkernel's is fixed
        knobs.values[kPrefetch] = {0, kScheduleAhead};
    } else if (base.vector == Source::fused)
        knobs.values[kPrefetch] = {0, kScheduleAhead};
    else if (base.vector == Source::frozen && !c.kernel_taps)
        knobs.values[kPrefetch] = {0, kScheduleAhead, 8, 32};
    else
        knobs.values[kPrefetch] = {0, 8, 16, 32};
    if (base.structure != Structure::depthwise) {
        knobs.values[kOrder] = {0, 1, 2, 3, 4, 5};
        knobs.values[kRowBlock] = block_sizes(c.rows);
        knobs.values[kLaneBlock] = block_sizes((c.lanes + lanes - 1) / lanes);
    }
    if (plan->nest->strip_rows != 0) {
        knobs.values[kOuterBlock] = strip_sizes(plan->nest->output_rows);
        const bool depthwise = base.structure == Structure::depthwise;
        knobs.values[kFold] = divisors(plan->nest->outer_extent[depthwise ? 1 : 0], kMaxFold);
    }
    return knobs;
}

class Space final : public ScheduleSpace {
public:
    Space(const whet_op& op, const MachineModel& machine)
        : op_(op), machine_(machine), sketches_(sketches_of(op, machine.isa)) {
        for (const Sketch& sketch : sketches_)
            knobs_.push_back(knobs_of(op, sketch.base, machine.isa));
    }

    int sketch_count() const override { return static_cast<int>(sketches_.size()); }
    std::string sketch_name(int sketch) const override {
        const std::string text = sketches_[sketch].base.print();
        return text.substr(0, text.find(" order="));
    }
    int knob_count(int) const override { return kKnobs; }
    std::string knob_name(int, int knob) const override { return kKnobNames[knob]; }
    int choice_count(int sketch, int knob) const override {
        return static_cast<int>(knobs_[sketch].values[knob].size());
    }
    bool legal(int sketch, const base::Point& point, std::string* reason) const override {
        const auto checked = check_schedule(op_, schedule_at(sketch, point), machine_.isa);
        if (!checked && reason != nullptr) *reason = checked.error().message;
        return checked.has_value();
    }
    bool step(int sketch, base::Point& point, base::Move move) const override {
        const int next = point[move.knob] + move.delta;
        if (next < 0 || next >= choice_count(sketch, move.knob)) return false;
        base::Point moved = point;
        moved[move.knob] = static_cast<int16_t>(next);
        if (!legal(sketch, moved, nullptr)) return false;
        point = std::move(moved);
        return true;
    }
    double estimate_ns(int sketch, const base::Point& point) const override {
        const auto plan = lower(op_, schedule_at(sketch, point), machine_.isa);
        return plan ? cost_of(*plan, machine_).ns(machine_) * busiest_share(*plan) : INFINITY;
    }
    int feature_count() const override { return kFeatureCount; }
    void features(int sketch, const base::Point& point, std::span<float> out) const override {
        const auto plan = lower(op_, schedule_at(sketch, point), machine_.isa);
        if (plan)
            features_of(*plan, machine_, out);
        else
            std::fill(out.begin(), out.end(), 0.0f);
    }
    Schedule schedule_at(int sketch, const base::Point& point) const override {
        Schedule schedule = sketches_[sketch].base;
        for (int knob = 0; knob < kKnobs; ++knob)
            set_knob(schedule, knob, knobs_[sketch].values[knob][point[knob]]);
        schedule.parallel = 1;
        return schedule;
    }
    base::Point point_of(const Schedule& schedule, int* sketch) const override {
        for (int i = 0; i < sketch_count(); ++i) {
            const Schedule& base = sketches_[i].base;
            if (base.structure != schedule.structure || base.scalar != schedule.scalar ||
                base.vector != schedule.vector)
                continue;
            base::Point point(kKnobs);
            for (int knob = 0; knob < kKnobs; ++knob)
                point[knob] = nearest(knobs_[i].values[knob], get_knob(schedule, knob));
            *sketch = i;
            return legal(i, point, nullptr) ? point : base::Point{};
        }
        return {};
    }
    base::Point default_point(int sketch) const override {
        base::Point point(kKnobs, 0);
        point[kUnroll] = nearest(knobs_[sketch].values[kUnroll], 4);
        point[kPrefetch] = nearest(knobs_[sketch].values[kPrefetch], kScheduleAhead);
        point[kOuterBlock] = static_cast<int16_t>(knobs_[sketch].values[kOuterBlock].size() - 1);
        return point;
    }
    const whet_op& op() const override { return op_; }
    Isa isa() const override { return machine_.isa; }

private:
    static int16_t nearest(const std::vector<int>& values, int wanted) {
        size_t best = 0;
        for (size_t i = 0; i < values.size(); ++i)
            if (std::abs(values[i] - wanted) < std::abs(values[best] - wanted)) best = i;
        return static_cast<int16_t>(best);
    }

    whet_op op_;
    MachineModel machine_;
    std::vector<Sketch> sketches_;
    std::vector<Knobs> knobs_;
};

/// One ranked schedule of the draft.
struct Ranked {
    double ns;
    int sketch;
    base::Point point;
};

/// All tiles of a sketch with one choice of the other knobs, then strips of the best tiles, then
/// blocks of the best strips: three passes over a product space that is too large to enumerate
/// whole.
class Draft {
public:
    Draft(const ScheduleSpace& space, bool (*usable)(const MicrokernelSpec&, void*), void* context)
        : space_(space), usable_(usable), context_(context) {}

    std::vector<Schedule> best(size_t count) {
        for (int sketch = 0; sketch < space_.sketch_count(); ++sketch) rank_sketch(sketch);
        std::stable_sort(ranked_.begin(), ranked_.end(),
                         [](const Ranked& a, const Ranked& b) { return a.ns < b.ns; });
        std::vector<Schedule> schedules, spare;
        std::map<std::string, std::pair<size_t, int64_t>>
            seen;  // by what is executed: the place, its number of tasks
        std::map<std::string, size_t>
            of_tile;  // the best few blocks of each register tile: its rank is less certain
        const size_t most_of_tile = std::max<size_t>(2, count / kTilesKept);
        for (const Ranked& r : ranked_) {
            const Schedule schedule = space_.schedule_at(r.sketch, r.point);
            const Execution execution = execution_of(schedule);
            const auto [found, fresh] =
                seen.try_emplace(execution.text, schedules.size(), execution.tasks);
            if (fresh) {
                if (schedules.size() >= count) break;
                if (++of_tile[tile_of(schedule)] > most_of_tile) {
                    spare.push_back(schedule);
                    found->second.first = kSpare;
                    continue;
                }
                schedules.push_back(schedule);
            } else if (found->second.first != kSpare &&
                       execution.tasks >
                           found->second
                               .second) {  // the same calls, but in parts that can be shared out
                schedules[found->second.first] = schedule;
                found->second.second = execution.tasks;
            }
        }
        for (size_t i = 0; schedules.size() < count && i < spare.size(); ++i)
            schedules.push_back(spare[i]);
        return schedules;
    }

private:
    static constexpr size_t kSpare = SIZE_MAX;

    static std::string tile_of(const Schedule& s) {
        return std::to_string(s.rows) + "x" + std::to_string(s.vectors) + " " +
               std::to_string(static_cast<int>(s.structure)) +
               std::to_string(static_cast<int>(s.scalar)) +
               std::to_string(static_cast<int>(s.vector));
    }
    /// What a schedule does, whatever its text: blocks cut to what there is, loops of one iteration
    /// left out.
    struct Execution {
        std::string text;
        int64_t tasks = 1;
    };
    Execution execution_of(Schedule schedule) const {
        const auto plan = lower(space_.op(), schedule, space_.isa());
        if (!plan || plan->nest->contractions.size() != 1) return {schedule.print(), 1};
        const Contraction& c = plan->nest->contractions.front();
        const int64_t row_tiles = c.all_row_tiles(), lane_tiles = c.all_lane_tiles(c.lanes);
        schedule.row_block = c.row_block >= row_tiles ? 0 : schedule.row_block;
        schedule.lane_block = c.lane_block >= lane_tiles ? 0 : schedule.lane_block;
        static constexpr const char* kOrders[] = {"lsr", "slr", "rsl", "srl", "lrs", "rls"};
        std::string loops;
        for (const char* axis = kOrders[static_cast<int>(schedule.order)]; *axis; ++axis)
            if (*axis == 'r'   ? schedule.row_block != 0
                : *axis == 'l' ? schedule.lane_block != 0
                               : c.segments > 1)
                loops += *axis;
        schedule.order = LoopOrder::lsr;
        const bool whole = (c.scalar.source == Source::packed && c.scalar.whole) ||
                           (c.vector.source == Source::packed && c.vector.whole);
        return {schedule.print() + loops + (whole ? "w" : ""), plan->phases[0].task_count};
    }

    static constexpr size_t kTilesKept =
        6;  // register tiles of a sketch whose strips are enumerated
    static constexpr size_t kCutsKept =
        3;  // strips and folds of a tile whose blocks are enumerated

    void rank_sketch(int sketch) {
        std::vector<Ranked> tiles;
        base::Point point = space_.default_point(sketch);
        const bool ahead = space_.schedule_at(sketch, point).prefetch == kScheduleAhead;
        for (int rows = 0; rows < space_.choice_count(sketch, kRows); ++rows)
            for (int vectors = 0; vectors < space_.choice_count(sketch, kVectors); ++vectors) {
                point[kRows] = static_cast<int16_t>(rows);
                point[kVectors] = static_cast<int16_t>(vectors);
                // Where the microkernel that prefetches has to be compiled first, the plain one may
                // be there.
                for (point[kPrefetch] = ahead ? 1 : 0;
                     !rank(sketch, point, tiles) && point[kPrefetch] > 0;)
                    --point[kPrefetch];
            }
        for (const Ranked& tile : shortest(tiles, kTilesKept)) {
            std::vector<Ranked> cuts;
            rank_over(sketch, tile.point, {kOuterBlock, kFold}, cuts);
            for (const Ranked& cut : shortest(cuts, kCutsKept))
                rank_over(sketch, cut.point, {kOrder, kRowBlock, kLaneBlock}, ranked_);
        }
    }

    static std::vector<Ranked> shortest(std::vector<Ranked> all, size_t count) {
        std::sort(all.begin(), all.end(),
                  [](const Ranked& a, const Ranked& b) { return a.ns < b.ns; });
        if (all.size() > count) all.resize(count);
        return all;
    }

    /// Ranks every combination of some knobs, the others as they are.
    void rank_over(int sketch, base::Point point, const std::vector<Knob>& knobs,
                   std::vector<Ranked>& out) {
        for (const Knob knob : knobs) point[knob] = 0;
        for (bool more = true; more;) {
            rank(sketch, point, out);
            more = false;
            for (const Knob knob : knobs) {
                more = ++point[knob] < space_.choice_count(sketch, knob);
                if (more) break;
                point[knob] = 0;
            }
        }
    }

    /// False when there is no such plan, or none without a compiler.
    bool rank(int sketch, const base::Point& point, std::vector<Ranked>& out) {
        if (usable_ != nullptr && !buildable(space_.schedule_at(sketch, point))) return false;
        const double ns = space_.estimate_ns(sketch, point);
        if (std::isfinite(ns)) out.push_back({ns, sketch, point});
        return std::isfinite(ns);
    }
    bool buildable(const Schedule& schedule) {
        const auto plan = lower(space_.op(), schedule, space_.isa());
        if (!plan) return false;
        for (const MicrokernelSpec& spec : plan->kernels)
            if (!usable_(spec, context_)) return false;
        return true;
    }

    const ScheduleSpace& space_;
    bool (*usable_)(const MicrokernelSpec&, void*);
    void* context_;
    std::vector<Ranked> ranked_;
};

}  // namespace

std::unique_ptr<ScheduleSpace> make_space(const whet_op& op, const MachineModel& machine) {
    return std::make_unique<Space>(op, machine);
}

std::vector<Schedule> analytical_draft(const ScheduleSpace& space, size_t count,
                                       bool (*usable)(const MicrokernelSpec&, void*),
                                       void* context) {
    return Draft(space, usable, context).best(count);
}

}  // namespace whet::jit
