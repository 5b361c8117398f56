// SPDX-License-Identifier: Apache-2.0
// Row-major tiles of 16-bit elements in shared memory, kDim a row, with the 16-byte chunks of a row
// permuted by the row number: eight rows of one chunk column then lie in eight different bank
// groups, so ldmatrix and cp.async run without conflicts and without padding. For kDim = 64 this is
// the 128-byte swizzle of TMA and wgmma.
#pragma once

#include "kernel/ptx/arch.cuh"

namespace tilegate::tile {

// Byte offset of chunk `chunk` (8 elements) of row `row`.
template <int kDim>
__device__ __forceinline__ int swizzled_offset(int row, int chunk) {
  static_assert(kDim % 64 == 0, "a row must hold whole groups of eight chunks");
  return row * (kDim * 2) + ((chunk ^ (row & 7)) << 4);
}

}  // namespace tilegate::tile
