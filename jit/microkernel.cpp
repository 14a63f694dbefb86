// SPDX-License-Identifier: Apache-2.0
// Names, text form, limits and hash of microkernel specs.
#include "jit/microkernel.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>

namespace whet::jit {
namespace {

constexpr std::array<const char*, 3> kIsaNames = {"portable", "avx2", "avx512"};
constexpr std::array<const char*, 4> kScalarNames = {"rows_strided", "packed", "general",
                                                     "uniform"};
constexpr std::array<const char*, 4> kVectorNames = {"strided", "packed", "row_strided",
                                                     "transposed"};
constexpr std::array<const char*, 2> kEpilogueNames = {"none", "relu"};

constexpr int kMaxRows = 28;    // 28 accumulators, one vector and one splat fill 30 of 32 registers
constexpr int kMaxVectors = 4;  // a fifth vector leaves fewer than five rows, too few to hide loads
constexpr int kMaxSoftmaxRows = 1;
constexpr int kMaxPointerRowsOfPacks = 10;  // one base less: the panel has a pointer
constexpr int kMaxPointerRows =
    15;  // three base pointers an operand (RowAddresses) fill the general registers

/// Vector registers a tile may count on; the interpreter has no such limit and takes the larger
/// one.
int register_budget(Isa isa) { return isa == Isa::avx2 ? 16 : 32; }

/// Registers that one reduction step keeps alive: the sums, the operand side loaded at once, one of
/// the other side. The additions of the narrow and the row-strided forms are what LLVM's allocator
/// was found to need: every spec that check() lets pass compiles without a spill in a reduction
/// loop (Tiles.EverySpecPassesTheStaticCheck).
int registers_of(const MicrokernelSpec& spec) {
    const int sums = spec.rows * spec.vectors;
    if (spec.vector == VectorForm::row_strided) return sums + 8;
    if (spec.vector == VectorForm::transposed) return sums + 2 * kTransposedSteps;
    const int at_once =
        spec.scalar == ScalarForm::uniform ? spec.vectors : std::min(spec.rows, spec.vectors);
    return sums + at_once + (spec.vectors == 1 ? 2 : 1);
}

template <std::size_t N>
int index_of(const std::array<const char*, N>& names, std::string_view text) {
    for (std::size_t i = 0; i < N; ++i) {
        if (text == names[i]) return static_cast<int>(i);
    }
    return -1;
}

/// Takes the text up to the next dot off `rest`.
std::string_view next_part(std::string_view& rest) {
    const std::size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    rest = dot == std::string_view::npos ? std::string_view{} : rest.substr(dot + 1);
    return part;
}

/// Parses `<letter><1 to 255>` into `value`.
bool parse_number(std::string_view part, char letter, uint8_t& value) {
    if (part.size() < 2 || part[0] != letter || part[1] == '0') return false;
    int number = 0;
    const char* end = part.data() + part.size();
    const auto [last, error] = std::from_chars(part.data() + 1, end, number);
    if (error != std::errc{} || last != end || number < 1 || number > 255) return false;
    value = static_cast<uint8_t>(number);
    return true;
}

/// Parses one named field; false when the name is unknown.
template <typename Enum, std::size_t N>
bool parse_name(std::string_view part, const std::array<const char*, N>& names, Enum& value) {
    const int index = index_of(names, part);
    if (index < 0) return false;
    value = static_cast<Enum>(index);
    return true;
}

/// Parses the optional suffixes, each at most once and in the order that print writes.
bool parse_suffixes(std::string_view rest, MicrokernelSpec& spec) {
    while (!rest.empty()) {
        const std::string_view part = next_part(rest);
        const bool first = !spec.masked_loads && !spec.taps && !spec.packs && !spec.prefetch;
        if (part == "f64" && first && spec.element == Element::f32) {
            spec.element = Element::f64;
        } else if (part == "masked" && !spec.masked_loads && !spec.taps && !spec.packs &&
                   !spec.prefetch) {
            spec.masked_loads = 1;
        } else if (part == "taps" && !spec.taps && !spec.packs && !spec.prefetch) {
            spec.taps = 1;
        } else if (part == "steps" && !spec.taps && !spec.packs && !spec.prefetch) {
            spec.taps = 2;
        } else if (part == "packs" && !spec.packs && !spec.prefetch) {
            spec.packs = 1;
        } else if (spec.prefetch || !parse_number(part, 'p', spec.prefetch)) {
            return false;
        }
    }
    return true;
}

base::Result<void> check_softmax(const MicrokernelSpec& spec) {
    if (spec.rows < 1 || spec.rows > kMaxSoftmaxRows) {
        return base::make_error(base::Code::unsupported, "softmax rows %d is not in 1 to %d",
                                spec.rows, kMaxSoftmaxRows);
    }
    const MicrokernelSpec plain = {.kind = MicrokernelKind::softmax,
                                   .isa = spec.isa,
                                   .rows = spec.rows,
                                   .vectors = 0,
                                   .scalar = ScalarForm{},
                                   .vector = VectorForm{}};
    if (!(spec == plain)) {
        return base::make_error(base::Code::invalid_argument,
                                "a softmax spec has fields of a tile set: got %s",
                                spec.print().c_str());
    }
    return {};
}

/// f64 has the forms that matrix products in plain and in packed order need.
base::Result<void> check_f64(const MicrokernelSpec& spec) {
    const bool offered = !spec.taps && !spec.packs && spec.scalar != ScalarForm::uniform &&
                         (spec.vector == VectorForm::strided || spec.vector == VectorForm::packed);
    if (offered) return {};
    return base::make_error(base::Code::unsupported,
                            "%s: an f64 tile has no taps, no uniform scalars, and a strided or "
                            "packed vector operand",
                            spec.print().c_str());
}

base::Result<void> check_transposed(const MicrokernelSpec& spec) {
    const bool plain = spec.vectors == 1 && spec.unroll == kTransposedUnroll &&
                       !spec.masked_loads && !spec.taps && spec.scalar != ScalarForm::uniform &&
                       !(spec.packs && spec.scalar == ScalarForm::general) &&
                       (spec.prefetch == 0 || spec.prefetch == kAheadLine);
    if (plain) return {};
    return base::make_error(
        base::Code::unsupported,
        "%s: a transposed operand has one vector, unroll %d, no mask, no taps, rows "
        "of their own on the other side (with packs, no general ones), and no "
        "prefetch but %d",
        spec.print().c_str(), kTransposedUnroll, kAheadLine);
}

}  // namespace

const char* isa_name(Isa isa) noexcept {
    const auto index = static_cast<std::size_t>(isa);
    return index < kIsaNames.size() ? kIsaNames[index] : "unknown";
}

base::Result<Isa> parse_isa(std::string_view text) {
    Isa isa{};
    if (!parse_name(text, kIsaNames, isa)) {
        return base::make_error(base::Code::invalid_argument,
                                "instruction set \"%.*s\" is not portable, avx2 or avx512",
                                static_cast<int>(text.size()), text.data());
    }
    return isa;
}

std::string MicrokernelSpec::print() const {
    std::string text = kind == MicrokernelKind::softmax ? "softmax." : "tile.";
    text += isa_name(isa);
    text += ".r" + std::to_string(rows);
    if (kind == MicrokernelKind::softmax) return text;
    text += ".v" + std::to_string(vectors) + ".u" + std::to_string(unroll);
    text += std::string(".") + kScalarNames[static_cast<std::size_t>(scalar) & 3];
    text += std::string(".") + kVectorNames[static_cast<std::size_t>(vector) & 3];
    text += std::string(".") + kEpilogueNames[static_cast<std::size_t>(epilogue) & 1];
    if (element == Element::f64) text += ".f64";
    if (masked_loads) text += ".masked";
    if (taps) text += taps == 1 ? ".taps" : ".steps";
    if (packs) text += ".packs";
    if (prefetch) text += ".p" + std::to_string(prefetch);
    return text;
}

base::Result<MicrokernelSpec> MicrokernelSpec::parse(std::string_view text) {
    MicrokernelSpec spec;
    std::string_view rest = text;
    const std::string_view kind = next_part(rest);
    bool good = parse_name(next_part(rest), kIsaNames, spec.isa) &&
                parse_number(next_part(rest), 'r', spec.rows);
    if (kind == "softmax") {
        spec.kind = MicrokernelKind::softmax;
        spec.vectors = 0;
        spec.scalar = ScalarForm{};
        spec.vector = VectorForm{};
        good = good && rest.empty();
    } else {
        good = good && kind == "tile" && parse_number(next_part(rest), 'v', spec.vectors) &&
               parse_number(next_part(rest), 'u', spec.unroll) &&
               parse_name(next_part(rest), kScalarNames, spec.scalar) &&
               parse_name(next_part(rest), kVectorNames, spec.vector) &&
               parse_name(next_part(rest), kEpilogueNames, spec.epilogue) &&
               parse_suffixes(rest, spec);
    }
    if (!good || spec.print() != text) {
        return base::make_error(
            base::Code::invalid_argument,
            "microkernel \"%.*s\" is not of the form tile.ISA.rN.vN.uN.SCALAR.VECTOR.EPILOGUE"
            "[.f64][.masked][.taps|.steps][.packs][.pN] or softmax.ISA.rN",
            static_cast<int>(text.size()), text.data());
    }
    return spec;
}

base::Result<void> MicrokernelSpec::check() const {
    if (kind == MicrokernelKind::softmax) return check_softmax(*this);
    if (rows < 1 || rows > kMaxRows || vectors < 1 || vectors > kMaxVectors) {
        return base::make_error(base::Code::unsupported, "tile %dx%d is not in 1x1 to %dx%d", rows,
                                vectors, kMaxRows, kMaxVectors);
    }
    if (element != Element::f32) WHET_TRY_VOID(check_f64(*this));
    if (vector == VectorForm::transposed) {
        WHET_TRY_VOID(check_transposed(*this));
    } else if (packs) {
        return base::make_error(base::Code::unsupported,
                                "only a transposed operand is packed in passing");
    } else if (unroll != 1 && unroll != 2 && unroll != 4 && unroll != 8) {
        return base::make_error(base::Code::unsupported, "unroll %d is not 1, 2, 4 or 8", unroll);
    }
    if (masked_loads > 1 || taps > 2 || packs > 1) {
        return base::make_error(base::Code::invalid_argument,
                                "masked_loads %d or packs %d is not 0 or 1, or taps %d not 0 to 2",
                                masked_loads, packs, taps);
    }
    if (taps == 2 && (unroll != 1 || prefetch != 0)) {
        return base::make_error(base::Code::invalid_argument,
                                "one step a tap has unroll 1 and prefetch 0: got %d and %d", unroll,
                                prefetch);
    }
    if (is_ahead(prefetch) && unroll % kAheadStreams != 0) {
        return base::make_error(base::Code::unsupported,
                                "prefetch %d: unroll %d is not a multiple of its %d streams",
                                prefetch, unroll, kAheadStreams);
    }
    if (is_ahead(prefetch) && vector != VectorForm::transposed &&
        (taps != 0 || vector != VectorForm::packed)) {
        return base::make_error(base::Code::unsupported,
                                "prefetch %d: only panels without taps have a next one", prefetch);
    }
    const bool row_pointers =
        (vector == VectorForm::row_strided || vector == VectorForm::transposed) &&
        (scalar == ScalarForm::rows_strided || scalar == ScalarForm::general);
    if (row_pointers && taps == 2) {
        return base::make_error(base::Code::unsupported,
                                "one step a tap with row strides on both operands: no registers "
                                "for the pointers");
    }
    const int most_pointer_rows = packs ? kMaxPointerRowsOfPacks : kMaxPointerRows;
    if (row_pointers && rows > most_pointer_rows) {
        return base::make_error(base::Code::unsupported,
                                "%d rows with strides on both operands, at most %d have pointers",
                                rows, most_pointer_rows);
    }
    const int needed = registers_of(*this);
    if (needed > register_budget(isa)) {
        return base::make_error(base::Code::unsupported,
                                "tile %dx%d needs %d vector registers, %s has %d", rows, vectors,
                                needed, isa_name(isa), register_budget(isa));
    }
    return {};
}

uint64_t hash_of(const MicrokernelSpec& spec) noexcept {
    const uint8_t fields[] = {static_cast<uint8_t>(spec.kind),
                              static_cast<uint8_t>(spec.isa),
                              spec.rows,
                              spec.vectors,
                              spec.unroll,
                              static_cast<uint8_t>(spec.scalar),
                              static_cast<uint8_t>(spec.vector),
                              static_cast<uint8_t>(spec.epilogue),
                              spec.masked_loads,
                              spec.taps,
                              spec.packs,
                              spec.prefetch,
                              static_cast<uint8_t>(spec.element)};
    // Without the last field where it is 0: what was stored for f32 keeps its name.
    const size_t count = std::size(fields) - (spec.element == Element::f32 ? 1 : 0);
    uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a, 64 bits
    for (size_t i = 0; i < count; ++i) hash = (hash ^ fields[i]) * 0x100000001b3u;
    return hash;
}

}  // namespace whet::jit
