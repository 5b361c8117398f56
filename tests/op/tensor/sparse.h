// SPDX-License-Identifier: Apache-2.0
// Tensors in a sparse mapping (address space without memory), for strides past 2^31 and 2^32.
#pragma once

#include <cstdint>

#include "tests/op/tensor/tensor.h"

namespace laws {

inline constexpr std::int64_t kPast31 = (std::int64_t{1} << 31) + 64;
inline constexpr std::int64_t kPast32 = (std::int64_t{1} << 32) + 128;

// The values of `packed` with a pitch of `stride` elements in dimension `dim`. Absent, with a line
// saying so, if the system refuses the mapping.
Tensor sparse_copy(const Tensor& packed, int dim, std::int64_t stride);

}  // namespace laws
