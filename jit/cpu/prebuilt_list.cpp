// SPDX-License-Identifier: Apache-2.0
// The table of microkernels made at build time.
#include "jit/cpu/prebuilt_list.hpp"

#include <algorithm>

namespace whet::jit::cpu {
namespace {

constexpr uint8_t kUnroll = 4;

/// Tiles of `vectors` vectors with every number of rows up to `last_row`: remainders need the small ones.
struct Ladder {
    Isa isa;
    uint8_t vectors;
    uint8_t last_row;
    bool taps;  ///< the widest few also as convolution tiles (kTapRows)
};

constexpr Ladder kLadders[] = {
    {Isa::avx512, 1, 24, false}, {Isa::avx512, 2, 14, true}, {Isa::avx512, 3, 8, true}, {Isa::avx512, 4, 6, true},
    {Isa::avx2, 1, 12, false},   {Isa::avx2, 2, 6, true},    {Isa::avx2, 3, 4, true},   {Isa::avx2, 4, 3, true},
};

constexpr int kWidest = 3;  // rows last_row, last_row - 1, ... that count as main tiles

void add_products(const Ladder& ladder, std::vector<MicrokernelSpec>& specs) {
    for (uint8_t rows = 1; rows <= ladder.last_row; ++rows) {
        const bool main_tile = rows + kWidest > ladder.last_row && ladder.vectors > 1;
        MicrokernelSpec spec = {.isa = ladder.isa, .rows = rows, .vectors = ladder.vectors, .unroll = kUnroll};
        for (const ScalarForm scalar : {ScalarForm::rows_strided, ScalarForm::packed}) {
            spec.scalar = scalar;
            spec.vector = VectorForm::packed;
            spec.epilogue = Epilogue::none;
            specs.push_back(spec);
            if (!main_tile) continue;
            spec.epilogue = Epilogue::relu;
            specs.push_back(spec);
            spec.epilogue = Epilogue::none;
            spec.vector = VectorForm::strided;
            specs.push_back(spec);
        }
    }
}

/// Convolutions: weights broadcast over image rows (packed scalar, strided vector) and pixels broadcast over packed
/// weights (general scalar, packed vector).
void add_taps(const Ladder& ladder, std::vector<MicrokernelSpec>& specs) {
    for (int rows = ladder.last_row; rows > std::max(0, ladder.last_row - kWidest); --rows) {
        for (const Epilogue epilogue : {Epilogue::none, Epilogue::relu}) {
            MicrokernelSpec spec = {.isa = ladder.isa, .rows = static_cast<uint8_t>(rows), .vectors = ladder.vectors,
                                    .unroll = kUnroll, .scalar = ScalarForm::packed, .vector = VectorForm::strided,
                                    .epilogue = epilogue, .taps = 1};
            specs.push_back(spec);
            spec.scalar = ScalarForm::general;
            spec.vector = VectorForm::packed;
            specs.push_back(spec);
        }
    }
}

}  // namespace

std::vector<MicrokernelSpec> prebuilt_specs() {
    std::vector<MicrokernelSpec> specs;
    for (const Ladder& ladder : kLadders) {
        add_products(ladder, specs);
        if (ladder.taps) add_taps(ladder, specs);
    }
    for (const Isa isa : {Isa::avx2, Isa::avx512}) {
        specs.push_back({.kind = MicrokernelKind::softmax, .isa = isa, .vectors = 0, .scalar = {}, .vector = {}});
    }
    return specs;
}

}  // namespace whet::jit::cpu
