// SPDX-License-Identifier: Apache-2.0
#include "tools/whet/bench/timing.hpp"

#include <algorithm>

#include "tools/whet/bench/machine.hpp"

namespace whet::bench {
namespace {

constexpr double kSegmentNs =
    250e3;  // some 10,000 clock ticks: the clock's own cost is below 0.02 %
constexpr int64_t kMostCalls = 1 << 20;
constexpr size_t kLeastQuads = 5;  // where a call is so long that the budget allows fewer
constexpr size_t kMostQuads = 1000;

double segment_ns(const Side& side, int64_t calls, const std::function<void()>& prepare) {
    prepare();
    const int64_t begin = now_ns();
    side(calls);
    return static_cast<double>(now_ns() - begin) / static_cast<double>(calls);
}

int64_t calls_per_segment(const Side& side, const std::function<void()>& prepare) {
    int64_t calls = 1;
    double spent = segment_ns(side, 1, prepare);
    while (spent * static_cast<double>(calls) < kSegmentNs / 4 && calls < kMostCalls) {
        calls *= 2;
        spent = segment_ns(side, calls, prepare);
    }
    const double wanted = kSegmentNs / std::max(spent, 0.1);
    return std::clamp<int64_t>(static_cast<int64_t>(wanted + 0.5), 1, kMostCalls);
}

}  // namespace

Comparison compare(const Side& a, const Side& b, const std::function<void()>& prepare,
                   double seconds, uint64_t seed, const LayOut& lay_out) {
    const int64_t calls = std::min(calls_per_segment(a, prepare), calls_per_segment(b, prepare));
    const auto end = now_ns() + static_cast<int64_t>(seconds * 1e9);
    std::vector<Quad> quads;
    std::vector<double> a_ns, b_ns;
    while (quads.size() < kLeastQuads || (now_ns() < end && quads.size() < kMostQuads)) {
        Quad quad;
        if (lay_out && quads.size() % 2 == 0)
            lay_out(static_cast<int>(quads.size() / 2 % kLayouts));
        if (quads.size() % 2 == 0) {
            quad.a[0] = segment_ns(a, calls, prepare);
            quad.b[0] = segment_ns(b, calls, prepare);
            quad.b[1] = segment_ns(b, calls, prepare);
            quad.a[1] = segment_ns(a, calls, prepare);
        } else {
            quad.b[0] = segment_ns(b, calls, prepare);
            quad.a[0] = segment_ns(a, calls, prepare);
            quad.a[1] = segment_ns(a, calls, prepare);
            quad.b[1] = segment_ns(b, calls, prepare);
        }
        quads.push_back(quad);
        a_ns.insert(a_ns.end(), {quad.a[0], quad.a[1]});
        b_ns.insert(b_ns.end(), {quad.b[0], quad.b[1]});
    }
    return {median_of(a_ns) * 1e-3, median_of(b_ns) * 1e-3, ratio_of(quads, seed), quads.size()};
}

double time_alone_ns(const Side& side, const std::function<void()>& prepare, double seconds) {
    const int64_t calls = calls_per_segment(side, prepare);
    const auto end = now_ns() + static_cast<int64_t>(seconds * 1e9);
    std::vector<double> samples;
    while (samples.size() < 2 * kLeastQuads || now_ns() < end)
        samples.push_back(segment_ns(side, calls, prepare));
    return median_of(samples);
}

}  // namespace whet::bench
