// SPDX-License-Identifier: Apache-2.0
// Schedules as text.
#include "jit/schedule/schedule.hpp"

#include <charconv>
#include <cstdio>
#include <cstring>

#include "base/hash.hpp"

namespace whet::jit {

namespace {

using base::Code;
using base::make_error;
using base::Result;

constexpr const char* kStructures[] = {"matmul",    "pixels", "channels",
                                       "depthwise", "phases", "row_softmax"};
constexpr const char* kSources[] = {"in_place", "packed", "frozen", "fused"};
constexpr const char* kOrders[] = {"lsr", "slr", "rsl", "srl", "lrs", "rls"};

template <size_t N>
Result<uint8_t> name_index(const char* const (&names)[N], std::string_view what,
                           std::string_view text) {
    std::string known;
    for (size_t i = 0; i < N; ++i) {
        if (text == names[i]) return static_cast<uint8_t>(i);
        known += (i ? ", " : "") + std::string(names[i]);
    }
    return make_error(Code::invalid_argument, "schedule: %.*s is '%.*s', expected one of %s",
                      static_cast<int>(what.size()), what.data(), static_cast<int>(text.size()),
                      text.data(), known.c_str());
}

Result<uint32_t> number(std::string_view what, std::string_view text, uint32_t most) {
    uint32_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value > most)
        return make_error(Code::invalid_argument, "schedule: %.*s is '%.*s', expected 0 to %u",
                          static_cast<int>(what.size()), what.data(), static_cast<int>(text.size()),
                          text.data(), most);
    return value;
}

/// Takes the text up to `separator` (or the end) from the front of `rest`.
std::string_view take(std::string_view& rest, char separator) {
    const size_t at = rest.find(separator);
    const std::string_view head = rest.substr(0, at);
    rest = at == std::string_view::npos ? std::string_view() : rest.substr(at + 1);
    return head;
}

/// Takes `name=value ` and returns the value.
Result<std::string_view> field(std::string_view& rest, std::string_view name) {
    const std::string_view token = take(rest, ' ');
    if (token.size() <= name.size() || token.substr(0, name.size()) != name ||
        token[name.size()] != '=')
        return make_error(Code::invalid_argument, "schedule: got '%.*s', expected %.*s=...",
                          static_cast<int>(token.size()), token.data(),
                          static_cast<int>(name.size()), name.data());
    return token.substr(name.size() + 1);
}

}  // namespace

std::string Schedule::print() const {
    char text[192];
    std::snprintf(text, sizeof(text),
                  "%s scalar=%s vector=%s order=%s tile=%dx%d unroll=%d prefetch=%d block=%dx%dx%d "
                  "fold=%d parallel=%d",
                  kStructures[static_cast<int>(structure)], kSources[static_cast<int>(scalar)],
                  kSources[static_cast<int>(vector)], kOrders[static_cast<int>(order)], rows,
                  vectors, unroll, prefetch, row_block, lane_block, outer_block, fold, parallel);
    return text;
}

base::Result<Schedule> Schedule::parse(std::string_view text) {
    Schedule s;
    std::string_view rest = text;
    WHET_TRY(const uint8_t structure, name_index(kStructures, "structure", take(rest, ' ')));
    s.structure = static_cast<Structure>(structure);
    WHET_TRY(const auto scalar_text, field(rest, "scalar"));
    WHET_TRY(const uint8_t scalar, name_index(kSources, "scalar", scalar_text));
    s.scalar = static_cast<Source>(scalar);
    WHET_TRY(const auto vector_text, field(rest, "vector"));
    WHET_TRY(const uint8_t vector, name_index(kSources, "vector", vector_text));
    s.vector = static_cast<Source>(vector);
    WHET_TRY(const auto order_text, field(rest, "order"));
    WHET_TRY(const uint8_t order, name_index(kOrders, "order", order_text));
    s.order = static_cast<LoopOrder>(order);
    WHET_TRY(auto tile, field(rest, "tile"));
    WHET_TRY(const uint32_t rows, number("tile rows", take(tile, 'x'), 255));
    WHET_TRY(const uint32_t vectors, number("tile vectors", tile, 255));
    WHET_TRY(const auto unroll_text, field(rest, "unroll"));
    WHET_TRY(const uint32_t unroll, number("unroll", unroll_text, 255));
    WHET_TRY(const auto prefetch_text, field(rest, "prefetch"));
    WHET_TRY(const uint32_t prefetch, number("prefetch", prefetch_text, 255));
    WHET_TRY(auto block, field(rest, "block"));
    WHET_TRY(const uint32_t row_block, number("row block", take(block, 'x'), 65535));
    WHET_TRY(const uint32_t lane_block, number("lane block", take(block, 'x'), 65535));
    WHET_TRY(const uint32_t outer_block, number("outer block", block, 65535));
    WHET_TRY(const auto fold_text, field(rest, "fold"));
    WHET_TRY(const uint32_t fold, number("fold", fold_text, 65535));
    WHET_TRY(const auto parallel_text, field(rest, "parallel"));
    WHET_TRY(const uint32_t parallel, number("parallel", parallel_text, 3));
    if (!rest.empty())
        return make_error(Code::invalid_argument,
                          "schedule: got '%.*s' after parallel, expected the end",
                          static_cast<int>(rest.size()), rest.data());
    s.rows = static_cast<uint8_t>(rows);
    s.vectors = static_cast<uint8_t>(vectors);
    s.unroll = static_cast<uint8_t>(unroll);
    s.prefetch = static_cast<uint8_t>(prefetch);
    s.row_block = static_cast<uint16_t>(row_block);
    s.lane_block = static_cast<uint16_t>(lane_block);
    s.outer_block = static_cast<uint16_t>(outer_block);
    s.fold = static_cast<uint16_t>(fold);
    s.parallel = static_cast<uint8_t>(parallel);
    return s;
}

uint64_t hash_of(const Schedule& schedule) noexcept {
    const std::string text = schedule.print();
    return base::hash_bytes(text.data(), text.size());
}

}  // namespace whet::jit
