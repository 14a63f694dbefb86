// SPDX-License-Identifier: Apache-2.0
// Plans as text.
#include <cstdio>

#include "jit/plan/nest.hpp"
#include "jit/plan/plan.hpp"

namespace whet::jit {

namespace {

constexpr const char* kPlaces[] = {"dst", "a", "b", "bias", "image", "product"};

std::string side(const char* name, const Access& access) {
    char text[160];
    const char* place = kPlaces[static_cast<int>(access.place)];
    if (access.source == Source::in_place)
        std::snprintf(text, sizeof(text), "  %s: %s in place, strides %lld (axis) %lld (channel)\n",
                      name, place, static_cast<long long>(access.axis_stride),
                      static_cast<long long>(access.channel_stride));
    else
        std::snprintf(text, sizeof(text), "  %s: panels of %s, packed %s\n", name, place,
                      access.source == Source::frozen  ? "once"
                      : access.source == Source::fused ? "by the first row tile"
                      : access.whole                   ? "in every call, ahead"
                                                       : "block by block");
    return text;
}

}  // namespace

std::string print_plan(const Plan& plan) {
    const Nest& nest = *plan.nest;
    std::string text = plan.schedule.print() + "\n";
    char line[256];
    std::snprintf(
        line, sizeof(line),
        "outer loops: batch %lld, group %lld, strip %lld; tasks %lld; scratch %zu bytes\n",
        static_cast<long long>(nest.outer_extent[0]), static_cast<long long>(nest.outer_extent[1]),
        static_cast<long long>(nest.outer_extent[2]),
        static_cast<long long>(plan.phases[0].task_count), plan.private_bytes);
    text += line;
    if (nest.image.enabled) {
        std::snprintf(line, sizeof(line), "image: %lld channels x %lld planes of %lld x %lld\n",
                      static_cast<long long>(nest.image.channels),
                      static_cast<long long>(nest.image.planes_rows * nest.image.planes_columns),
                      static_cast<long long>(nest.image.plane_rows),
                      static_cast<long long>(nest.image.pitch));
        text += line;
    }
    static constexpr const char* kOrders[] = {"lanes, segments, rows", "segments, lanes, rows",
                                              "rows, segments, lanes", "segments, rows, lanes",
                                              "lanes, rows, segments", "rows, lanes, segments"};
    for (const Contraction& c : nest.contractions) {
        std::snprintf(
            line, sizeof(line),
            "contraction: rows %lld (%lld tiles of %d, %lld of %d), lanes %lld (tiles of %d), "
            "channels %lld in "
            "segments of %lld, taps %lld\n  loops: %s; blocks of %lld row tiles, %lld lane tiles\n",
            static_cast<long long>(c.rows), static_cast<long long>(c.wide_tiles), c.narrow_rows + 1,
            static_cast<long long>(c.row_tiles - c.wide_tiles), c.narrow_rows,
            static_cast<long long>(c.lanes), c.tile_lanes, static_cast<long long>(c.channels),
            static_cast<long long>(c.segment), static_cast<long long>(c.taps),
            kOrders[static_cast<int>(c.order)], static_cast<long long>(c.row_block),
            static_cast<long long>(c.lane_block));
        text += line + side("scalar", c.scalar) + side("vector", c.vector);
    }
    for (const MicrokernelSpec& spec : plan.kernels) text += "microkernel: " + spec.print() + "\n";
    return text;
}

}  // namespace whet::jit
