// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/targets.hpp"

#include <string_view>

#include "jit/microkernel.hpp"
#include "jit/plan/plan.hpp"
#include "jit/plan/prove.hpp"
#include "jit/schedule/schedule.hpp"
#include "runtime/forge/op_row.hpp"
#include "runtime/forge/protocol.hpp"
#include "tests/jit/operations.hpp"

namespace whet::fuzz {
namespace {

using namespace runtime::forge;  // NOLINT: a dozen messages
using Seeds = std::vector<std::vector<uint8_t>>;

std::vector<uint8_t> bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

std::string_view text_of(const uint8_t* data, size_t size) {
    return {reinterpret_cast<const char*>(data), size};
}

Outcome refused(const base::Error& error) {
    return {false, error.message.empty() ? "refused without a reason" : ""};
}

const std::vector<whet_op>& operations() {
    static const std::vector<whet_op> ops = {
        test::matmul_op(13, 70, 600),
        test::conv_op(
            {.batch = 2, .in = 5, .out = 6, .rows = 9, .columns = 8, .kernel = 3, .padding = 1}),
        test::conv_op({.in = 6,
                       .out = 6,
                       .rows = 9,
                       .columns = 7,
                       .kernel = 3,
                       .stride = 2,
                       .padding = 1,
                       .groups = 6}),
        test::conv_op({.in = 3,
                       .out = 4,
                       .rows = 4,
                       .columns = 5,
                       .kernel = 4,
                       .stride = 2,
                       .padding = 1,
                       .transposed = true}),
        test::op_of(WHET_SOFTMAX, {test::view_of({7, 201}), test::view_of({7, 201})}),
    };
    return ops;
}

/// A schedule that parses prints back to itself; a plan that it lowers to stays inside its
/// operands.
Outcome run_schedule(const uint8_t* data, size_t size) {
    const auto parsed = jit::Schedule::parse(text_of(data, size));
    if (!parsed) return refused(parsed.error());
    const auto again = jit::Schedule::parse(parsed->print());
    if (!again || *again != *parsed)
        return {true, "does not survive print and parse: " + parsed->print()};
    for (const whet_op& op : operations()) {
        for (const jit::Isa isa : {jit::Isa::portable, jit::Isa::avx2, jit::Isa::avx512}) {
            const auto plan = jit::lower(op, *parsed, isa);
            if (!plan) continue;
            const auto proven = jit::prove_addresses(*plan);
            if (!proven) return {true, parsed->print() + ": " + proven.error().message};
        }
    }
    return {true, {}};
}

Seeds schedule_seeds() {
    Seeds seeds;
    for (const char* text :
         {"matmul scalar=in_place vector=packed order=lsr tile=14x2 unroll=4 prefetch=0 "
          "block=0x8x1 fold=1 parallel=1",
          "pixels scalar=packed vector=packed order=srl tile=6x2 unroll=2 prefetch=8 block=2x4x3 "
          "fold=2 parallel=0",
          "channels scalar=in_place vector=packed order=rsl tile=4x2 unroll=1 prefetch=0 "
          "block=1x0x3 fold=1 parallel=0",
          "depthwise scalar=in_place vector=packed order=lrs tile=5x1 unroll=1 prefetch=0 "
          "block=0x0x5 fold=3 parallel=0",
          "phases scalar=packed vector=packed order=slr tile=3x1 unroll=4 prefetch=0 block=0x0x2 "
          "fold=1 parallel=0",
          "row_softmax scalar=in_place vector=in_place order=lsr tile=2x1 unroll=1 prefetch=0 "
          "block=3x0x1 fold=1 parallel=0"})
        seeds.push_back(bytes_of(text));
    return seeds;
}

Outcome run_spec(const uint8_t* data, size_t size) {
    const auto parsed = jit::MicrokernelSpec::parse(text_of(data, size));
    if (!parsed) return refused(parsed.error());
    const auto again = jit::MicrokernelSpec::parse(parsed->print());
    if (again && *again == *parsed) return {true, {}};
    return {true, "does not survive print and parse: " + parsed->print()};
}

Seeds spec_seeds() {
    jit::MicrokernelSpec wide;
    wide.isa = jit::Isa::avx512;
    wide.rows = 14;
    wide.vectors = 2;
    return {bytes_of(jit::MicrokernelSpec{}.print()), bytes_of(wide.print())};
}

Outcome run_op_row(const uint8_t* data, size_t size) {
    const auto parsed = parse_op_row(text_of(data, size));
    if (!parsed) return refused(parsed.error());
    return {true, {}};
}

Seeds op_row_seeds() {
    return {bytes_of("linear m=32 k=384 n=1536"), bytes_of("bmm batch=3 m=4 k=5 n=6"),
            bytes_of("conv2d batch=1 in_channels=8 out_channels=4 spatial=7,7 kernel=3,3 stride=1 "
                     "padding=1"),
            bytes_of("softmax rows=12 columns=128")};
}

/// What decodes encodes to something that decodes to the same bytes.
template <typename T>
Outcome run_message(const uint8_t* data, size_t size) {
    const auto message = decode<T>(data, size);
    if (!message) return refused(message.error());
    const std::vector<uint8_t> bytes = encode(*message);
    const auto again = decode<T>(bytes.data(), bytes.size());
    if (!again) return {true, "its own encoding is refused: " + again.error().message};
    if (encode(*again) == bytes) return {true, {}};
    return {true, "its own encoding decodes to something else"};
}

template <typename T>
Seeds message_seeds() {
    T message;
    if constexpr (std::is_same_v<T, HelloMessage>) message.environment = {"WHET_SEED=3", ""};
    if constexpr (std::is_same_v<T, ProfileMessage>) message.entries.resize(3);
    if constexpr (std::is_same_v<T, PlantMessage>) message.content = {1, 2, 3};
    if constexpr (std::is_same_v<T, SiteMessage>) message.op = operations()[1];
    if constexpr (std::is_same_v<T, OfferMessage>) {
        message.blobs.resize(2);
        message.blobs[1].bytes = {0xc3};
        message.schedule = "matmul";
    }
    return {encode(message)};
}

template <typename T>
constexpr Target message_target(const char* name) {
    return {name, run_message<T>, message_seeds<T>};
}

constexpr Target kTargets[] = {
    {"schedule", run_schedule, schedule_seeds}, {"microkernel_spec", run_spec, spec_seeds},
    {"op_row", run_op_row, op_row_seeds},       message_target<HelloMessage>("hello"),
    message_target<SiteMessage>("site"),        message_target<ProfileMessage>("profile"),
    message_target<VerdictMessage>("verdict"),  message_target<ControlMessage>("control"),
    message_target<PlantMessage>("plant"),      message_target<TextMessage>("text"),
    message_target<ReadyMessage>("ready"),      message_target<OfferMessage>("offer"),
    message_target<StatusMessage>("status"),    message_target<LogMessage>("log"),
};

}  // namespace

std::span<const Target> targets() { return kTargets; }

}  // namespace whet::fuzz
