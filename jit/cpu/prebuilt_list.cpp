// SPDX-License-Identifier: Apache-2.0
// The table of microkernels made at build time.
#include "jit/cpu/prebuilt_list.hpp"

namespace whet::jit::cpu {
namespace {

constexpr uint8_t kUnroll = 4;

/// Tiles of `vectors` vectors with every number of rows up to `last_row`: schedules cut rows into
/// equal tiles, so that any height may be asked for. The shorter half is rare in convolutions.
struct Ladder {
    Isa isa;
    uint8_t vectors;
    uint8_t last_row;
    uint8_t first_depthwise_row, last_depthwise_row;
    Element element = Element::f32;

    MicrokernelSpec tile(int rows, ScalarForm scalar, VectorForm vector, Epilogue epilogue) const {
        return {.isa = isa,
                .rows = static_cast<uint8_t>(rows),
                .vectors = vectors,
                .unroll = kUnroll,
                .scalar = scalar,
                .vector = vector,
                .epilogue = epilogue,
                .element = element};
    }
    int first_long_row() const { return last_row / 2 + 1; }
};

constexpr Ladder kLadders[] = {
    {Isa::avx512, 1, 24, 14, 24}, {Isa::avx512, 2, 14, 7, 12}, {Isa::avx512, 3, 9, 4, 8},
    {Isa::avx512, 4, 6, 3, 6},    {Isa::avx2, 1, 12, 4, 8},    {Isa::avx2, 2, 6, 2, 4},
    {Isa::avx2, 3, 4, 1, 2},      {Isa::avx2, 4, 3, 1, 2},
};

constexpr ScalarForm kProductScalars[] = {ScalarForm::rows_strided, ScalarForm::packed};
constexpr VectorForm kVectors[] = {VectorForm::packed, VectorForm::strided};

/// Panels packed ahead: the next one is fetched while one is used.
void add_ahead(MicrokernelSpec spec, std::vector<MicrokernelSpec>& specs) {
    for (const PrefetchAhead ahead : {kAheadLine, kAheadRow}) {
        spec.prefetch = ahead;
        specs.push_back(spec);
    }
}

/// Matrix products and 1x1 convolutions: either operand packed or in place, the vector one masked
/// at its right edge. One-vector tiles serve narrow results only: their right edge is scratch,
/// their epilogues are compiled when asked for.
void add_products(const Ladder& ladder, Epilogue epilogue, std::vector<MicrokernelSpec>& specs) {
    for (int rows = 1; rows <= ladder.last_row; ++rows) {
        for (const ScalarForm scalar : kProductScalars) {
            for (const VectorForm vector : kVectors) {
                MicrokernelSpec spec = ladder.tile(rows, scalar, vector, epilogue);
                specs.push_back(spec);
                if (vector == VectorForm::packed && scalar == ScalarForm::rows_strided)
                    add_ahead(spec, specs);
                if (vector != VectorForm::strided || ladder.vectors == 1) continue;
                spec.masked_loads = 1;
                specs.push_back(spec);
            }
        }
    }
}

/// Products with [n][k] weights in place: few rows, for which a copy of the weights would not pay,
/// or the first rows of many, which leave a copy for the others.
void add_transposed(const Ladder& ladder, std::vector<MicrokernelSpec>& specs) {
    for (int rows = 1; rows <= ladder.last_row; ++rows) {
        for (const ScalarForm scalar : kProductScalars) {
            MicrokernelSpec spec =
                ladder.tile(rows, scalar, VectorForm::transposed, Epilogue::none);
            spec.unroll = kTransposedUnroll;
            spec.prefetch = kAheadLine;
            for (spec.packs = 0; spec.packs < 2; ++spec.packs) {
                if (spec.check() && (!spec.packs || scalar == ScalarForm::rows_strided))
                    specs.push_back(spec);
            }
        }
    }
}

/// Convolutions: weights (packed, or in place: general) broadcast over image rows, and pixels
/// broadcast over packed weights.
void add_taps(const Ladder& ladder, Epilogue epilogue, std::vector<MicrokernelSpec>& specs) {
    for (int rows = ladder.first_long_row(); rows <= ladder.last_row; ++rows) {
        for (const ScalarForm scalar : {ScalarForm::packed, ScalarForm::general}) {
            for (const VectorForm vector : kVectors) {
                MicrokernelSpec spec = ladder.tile(rows, scalar, vector, epilogue);
                spec.taps = 1;
                specs.push_back(spec);
            }
        }
    }
}

void add_depthwise(const Ladder& ladder, Epilogue epilogue, std::vector<MicrokernelSpec>& specs) {
    for (int rows = ladder.first_depthwise_row; rows <= ladder.last_depthwise_row; ++rows) {
        MicrokernelSpec spec =
            ladder.tile(rows, ScalarForm::uniform, VectorForm::row_strided, epilogue);
        spec.unroll = 1;
        spec.taps = 2;  // one channel: a tap is one step
        specs.push_back(spec);
    }
}

}  // namespace

std::vector<MicrokernelSpec> prebuilt_specs() {
    std::vector<MicrokernelSpec> specs;
    for (Ladder ladder : kLadders) {
        ladder.element = Element::f64;  // plain products: most programs in f64 have no others
        if (ladder.vectors > 1) add_products(ladder, Epilogue::none, specs);
        ladder.element = Element::f32;
        for (const Epilogue epilogue : {Epilogue::none, Epilogue::relu}) {
            add_depthwise(ladder, epilogue, specs);
            if (ladder.vectors == 1 && epilogue != Epilogue::none) continue;
            if (ladder.vectors == 1) add_transposed(ladder, specs);
            add_products(ladder, epilogue, specs);
            if (ladder.vectors > 1) add_taps(ladder, epilogue, specs);
        }
    }
    for (const Isa isa : {Isa::avx2, Isa::avx512}) {
        specs.push_back({.kind = MicrokernelKind::softmax,
                         .isa = isa,
                         .vectors = 0,
                         .scalar = {},
                         .vector = {}});
    }
    return specs;
}

}  // namespace whet::jit::cpu
