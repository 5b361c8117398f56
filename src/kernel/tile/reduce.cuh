// SPDX-License-Identifier: Apache-2.0
// Reductions over the four lanes that share a row of an mma accumulator.
#pragma once

#include "kernel/ptx/arch.cuh"

namespace tilegate::tile {

inline constexpr unsigned kFullWarp = 0xffffffffu;

__device__ __forceinline__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(kFullWarp, x, 1));
  return fmaxf(x, __shfl_xor_sync(kFullWarp, x, 2));
}

__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(kFullWarp, x, 1);
  return x + __shfl_xor_sync(kFullWarp, x, 2);
}

__device__ __forceinline__ int warp_prefix_sum(int x) {
  const int lane = static_cast<int>(threadIdx.x & 31);
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(kFullWarp, x, step);
    if (lane >= step) x += other;
  }
  return x;
}

}  // namespace tilegate::tile
