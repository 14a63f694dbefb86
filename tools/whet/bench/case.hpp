// SPDX-License-Identifier: Apache-2.0
// A suite's cases: read from JSON or from a row as text, described to Whet, counted in flops and
// bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <whet/whet.h>
#include <nlohmann/json.hpp>

#include "tools/whet/bench/peer.h"

namespace whet::bench {

/// Extents of one operand, in PyTorch's order of axes; compact.
using Extents = std::vector<int64_t>;

/// One row of a suite.
struct Case {
    std::string suite, name, op;  ///< op as in the suite, e.g. "conv2d"
    bench_shape shape{};

    /// What the cases that differ only in symbolic extents (rows, batch) have in common, e.g.
    /// "linear k=384 n=1536".
    std::string family() const;
    Extents dst_extents() const;
    Extents a_extents() const;
    Extents b_extents() const;  ///< empty: one operand
    bool has_bias() const { return shape.op == BENCH_LINEAR; }
    /// Whether operand b holds weights: rotated past the last-level cache, frozen when asked.
    bool has_weights() const;
    double flops() const;  ///< useful ones; 4 per element of a softmax
    double bytes() const;  ///< every operand once
};

/// The number of elements.
int64_t count_of(const Extents& extents);

/// Reads a case from a suite's row. Throws std::invalid_argument naming the field.
Case parse_case(const nlohmann::json& row, const std::string& suite);
/// Reads a row as text: `linear m=32 k=384 n=1536`, `conv2d batch=1 in_channels=64 ...
/// spatial=56x56 kernel=3x3`.
Case parse_case_text(std::string_view text);
/// Reads a suite by path, or by the name of a file in tests/bench/suites. Throws
/// std::invalid_argument.
std::vector<Case> load_suite(const std::string& path_or_name);

/// Describes the case to Whet, weights and bias frozen when asked. WHET_UNSUPPORTED for what the C
/// ABI has no name for.
whet_status describe(const Case& one, bool frozen, whet_op* op);

}  // namespace whet::bench
