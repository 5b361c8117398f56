// SPDX-License-Identifier: Apache-2.0
// Sums over a group of kLanes neighbouring lanes, by a butterfly from the widest step to the
// narrowest. Both forms add in the same order, so a value has the same bits alone or among others.
#pragma once

#include "kernel/tile/reduce.cuh"

namespace tilegate::tile {

constexpr int log2_of(int n) { return n <= 1 ? 0 : 1 + log2_of(n / 2); }

// The sum, in every lane.
template <int kLanes>
__device__ __forceinline__ float lane_sum(float x) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) x += __shfl_xor_sync(kFullWarp, x, step);
  return x;
}

// kValues sums with one shuffle a pair of values left: each step halves the values a lane holds.
// Lane l of the group returns the sum of value l * kValues / kLanes. Clobbers the values.
template <int kLanes, int kValues>
__device__ __forceinline__ float scattered_sums(float (&x)[kValues]) {
  static_assert(kValues <= kLanes);
  const int lane = static_cast<int>(threadIdx.x) & 31;
  int held = kValues;
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) {
    if (held == 1) {
      x[0] += __shfl_xor_sync(kFullWarp, x[0], step);
      continue;
    }
    held /= 2;
    const bool upper = (lane & step) != 0;
#pragma unroll
    for (int i = 0; i < kValues / 2; ++i) {
      if (i >= held) break;
      const float keep = upper ? x[i + held] : x[i];
      const float send = upper ? x[i] : x[i + held];
      x[i] = keep + __shfl_xor_sync(kFullWarp, send, step);
    }
  }
  return x[0];
}

}  // namespace tilegate::tile
