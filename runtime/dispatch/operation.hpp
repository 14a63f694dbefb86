// SPDX-License-Identifier: Apache-2.0
// Operations as keys: the one canonical form for lookup, the wire and the store; the family; the
// text for people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <whet/whet.h>

#include "base/status.hpp"

namespace whet::runtime {

/// Rewrites an operation so that equal meanings have equal bytes: strides of axes of extent 1 and
/// unused bytes become 0, -0.0 in alpha and beta becomes 0. Idempotent. Changes nothing that a plan
/// may rely on.
whet_op canonical(const whet_op& op) noexcept;

/// Checks that an operation is one that whet_op_* could have made (sizes, counts, ranks): the C
/// ABI's guard.
base::Result<void> check_operation(const whet_op& op);

/// The identity of a canonical operation, stable across processes.
uint64_t operation_id(const whet_op& canonical_op) noexcept;

/// The family: the operation without its symbolic extent (rows of a product, batch of a
/// convolution), and with strides reduced to {0, 1, other}, because leading dimensions may follow
/// the symbolic extent.
uint64_t family_id(const whet_op& canonical_op) noexcept;

/// The symbolic extent itself: M, or a convolution's batch.
int64_t symbolic_extent(const whet_op& op) noexcept;

/// True when some extent of dst is 0 (nothing to compute) or the reduction is empty (dst = beta *
/// dst).
bool is_degenerate(const whet_op& op) noexcept;

/// Number of elements of operand `index` and the span from its first to its last element, in
/// elements (0 when empty).
int64_t element_count(const whet_view& view) noexcept;
int64_t element_span(const whet_view& view) noexcept;
/// Bytes of one element.
constexpr size_t element_bytes(const whet_view& view) noexcept {
    return view.dtype == WHET_F64 ? 8 : 4;
}

/// e.g. `matmul m=32 k=384 n=1536 b=t frozen=b bias relu`.
std::string operation_text(const whet_op& op);

}  // namespace whet::runtime
