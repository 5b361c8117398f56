// SPDX-License-Identifier: Apache-2.0
// Sums over groups of neighbouring lanes, by a butterfly from the widest step to the narrowest. A
// value has the same bits alone or among others.
#pragma once

#include "kernel/tile/reduce.cuh"

namespace tilegate::tile {

// The sum, in every lane.
template <int kLanes>
__device__ __forceinline__ float lane_sum(float x) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) x += __shfl_xor_sync(kFullWarp, x, step);
  return x;
}

// One step of a scattered sum: lanes `step` apart add their `held` values and share them out. The
// first half of the values stays where the lane's bit is 0, the second where it is 1.
template <int kValues>
__device__ __forceinline__ void share_step(float (&x)[kValues], int held, int step) {
  const bool upper = (threadIdx.x & static_cast<unsigned>(step)) != 0;
#pragma unroll
  for (int i = 0; i < kValues / 2; ++i) {
    if (i >= held / 2) break;
    const float keep = upper ? x[i + held / 2] : x[i];
    const float send = upper ? x[i] : x[i + held / 2];
    x[i] = keep + __shfl_xor_sync(kFullWarp, send, step);
  }
}

// `held` sums over the lanes that differ in the bits from kFirst down to kLast: the values are
// shared out while there are several, then every lane has one. Clobbers the values.
template <int kFirst, int kLast, int kValues>
__device__ __forceinline__ float scattered_sums(float (&x)[kValues], int held) {
#pragma unroll
  for (int step = kFirst; step >= kLast; step /= 2) {
    if (held > 1) {
      share_step(x, held, step);
      held /= 2;
    } else {
      x[0] += __shfl_xor_sync(kFullWarp, x[0], step);
    }
  }
  return x[0];
}

}  // namespace tilegate::tile
