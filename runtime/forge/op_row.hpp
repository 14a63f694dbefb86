// SPDX-License-Identifier: Apache-2.0
// Operations as one line of text, in the words of the suites: `linear m=32 k=384 n=1536`.
#pragma once

#include <string>
#include <string_view>

#include <whet/whet.h>

#include "base/status.hpp"

namespace whet::runtime::forge {

/// Parses a suite row: an operator, then key=value words (values of several axes: 56x56). Operators
/// and keys:
///   linear m k n; gemm m k n; bmm batch m k n            (frozen=1 freezes linear's weights;
///   bias=1, relu=1) conv1d, conv2d, conv3d, conv_transpose2d  batch in_channels out_channels
///   spatial kernel stride padding dilation groups softmax rows columns
/// Operands are compact; linear's weights are [n, k]. invalid_argument says what was got and
/// expected.
base::Result<whet_op> parse_op_row(std::string_view text);

}  // namespace whet::runtime::forge
