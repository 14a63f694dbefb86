// SPDX-License-Identifier: Apache-2.0
// Sketch rules: which structures and which packings an operation allows, found by asking lowering
// itself.
#include "jit/plan/plan.hpp"
#include "jit/sketch/space.hpp"

namespace whet::jit {

namespace {

/// A structure with the rules that derive it from a computation.
struct Rule {
    Structure structure;
    Source scalar, vector;
    const char* rules;
};

/// In order of preference: what was promised frozen is packed ahead, small sides are read in place,
/// the rest is packed.
constexpr Rule kRules[] = {
    {Structure::matmul, Source::in_place, Source::frozen, "multi-level tiling; packing of b, once"},
    {Structure::matmul, Source::packed, Source::frozen,
     "multi-level tiling; packing of a, and of b once"},
    {Structure::matmul, Source::frozen, Source::in_place, "multi-level tiling; packing of a, once"},
    {Structure::matmul, Source::frozen, Source::packed,
     "multi-level tiling; packing of a once, and of b"},
    {Structure::matmul, Source::in_place, Source::in_place, "multi-level tiling"},
    {Structure::matmul, Source::in_place, Source::packed, "multi-level tiling; packing of b"},
    {Structure::matmul, Source::in_place, Source::fused,
     "multi-level tiling; packing of b by its first reader"},
    {Structure::matmul, Source::packed, Source::in_place, "multi-level tiling; packing of a"},
    {Structure::matmul, Source::packed, Source::packed, "multi-level tiling; packing of a and b"},
    {Structure::pixels, Source::frozen, Source::in_place,
     "orientation A; packing of weights, once"},
    {Structure::pixels, Source::frozen, Source::packed,
     "orientation A; pitch flattening; polyphase packing; packing of weights, once"},
    {Structure::pixels, Source::packed, Source::in_place, "orientation A; packing of weights"},
    {Structure::pixels, Source::packed, Source::packed,
     "orientation A; pitch flattening; polyphase packing; packing of weights"},
    {Structure::pixels, Source::in_place, Source::in_place, "orientation A"},
    {Structure::pixels, Source::in_place, Source::packed,
     "orientation A; pitch flattening; polyphase packing"},
    {Structure::channels, Source::in_place, Source::frozen,
     "orientation B; packing of weights, once"},
    {Structure::channels, Source::packed, Source::frozen,
     "orientation B; pitch flattening; polyphase packing; packing of weights, once"},
    {Structure::channels, Source::in_place, Source::packed, "orientation B; packing of weights"},
    {Structure::channels, Source::packed, Source::packed,
     "orientation B; pitch flattening; polyphase packing; packing of weights"},
    {Structure::depthwise, Source::in_place, Source::in_place, "depthwise: output rows share taps"},
    {Structure::depthwise, Source::in_place, Source::packed,
     "depthwise: output rows share taps; pitch flattening; polyphase packing"},
    {Structure::phases, Source::frozen, Source::packed,
     "transposed: polyphase; packing of weights, once"},
    {Structure::phases, Source::packed, Source::packed,
     "transposed: polyphase; packing of weights"},
    {Structure::phases, Source::in_place, Source::packed, "transposed: polyphase"},
    {Structure::row_softmax, Source::in_place, Source::in_place, "row functions"},
};

}  // namespace

std::vector<Sketch> sketches_of(const whet_op& op, Isa isa) {
    std::vector<Sketch> sketches;
    const bool frozen = op.frozen != 0;
    for (const Rule& rule : kRules) {
        Schedule base;
        base.structure = rule.structure;
        base.scalar = rule.scalar;
        base.vector = rule.vector;
        base.outer_block = 0;
        base.unroll = 4;
        // Depthwise groups have nothing to contract over channels: the general structures would run
        // them one by one.
        const bool depthwise = op.kind == WHET_CONV && op.groups > 1 &&
                               op.operands[WHET_B].extents[1] == 1 &&
                               op.operands[WHET_DST].extents[1] == op.groups;
        if (depthwise && rule.structure != Structure::depthwise) continue;
        // Which edges an operand packed in passing can have depends on the tile's width.
        constexpr int kMostVectors = 4;
        auto checked = check_schedule(op, base, isa);
        for (; !checked && base.vectors < kMostVectors; checked = check_schedule(op, base, isa))
            ++base.vectors;
        if (!checked) continue;
        // What is packed once need not be packed in every call.
        if (frozen && rule.scalar != Source::frozen && rule.vector != Source::frozen &&
            !sketches.empty() &&
            (sketches[0].base.scalar == Source::frozen ||
             sketches[0].base.vector == Source::frozen))
            continue;
        sketches.push_back({base, rule.rules});
    }
    return sketches;
}

}  // namespace whet::jit
