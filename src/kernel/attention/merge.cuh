// SPDX-License-Identifier: Apache-2.0
// Merges P partial attention states a row: o = sum_p w_p v_p, w_p = 2^(s_p - lse), lse = log2 sum_p
// 2^s_p. A thread owns kVector columns of one (row, head): it reads all s, then the v of the parts
// whose s is not -inf, four at a time. Parts are added in order. Bound by the bytes of v and o.
#pragma once

#include "kernel/attention/merge_params.h"
#include "kernel/pipe/row_items.cuh"
#include "kernel/tile/vector.cuh"

namespace tilegate::kernel {

template <class Element, int kVector>
struct Merge {
  using Vector = tile::Vector<Element, kVector>;
  static constexpr int kBatch = 4;  // parts in flight

  static __device__ __forceinline__ void run(const MergeParams& p, std::int64_t row, int head,
                                             int chunk) {
    const float* s = p.s + row * p.s_row + head * p.s_head;
    const std::int64_t column = static_cast<std::int64_t>(chunk) * kVector;
    const std::int64_t v = row * p.v_row + head * p.v_head + column;
    float top = -INFINITY;
    for (int i = 0; i < p.parts; ++i) top = fmaxf(top, __ldg(s + i * p.s_part));
    const float base = top == -INFINITY ? 0.0f : top;
    float total = 0.0f;
    float sum[kVector] = {};
    for (int first = 0; first < p.parts; first += kBatch) {
      Vector part[kBatch];
      float weight[kBatch];
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        const int i = first + b;
        const float own = i < p.parts ? __ldg(s + i * p.s_part) : -INFINITY;
        weight[b] = ptx::exp2_approx(own - base);
        if (own != -INFINITY) part[b].load(p.v, v + i * p.v_part);
      }
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        total += weight[b];
#pragma unroll
        for (int c = 0; c < kVector; ++c) sum[c] += weight[b] * part[b].values[c];
      }
    }
    const float inverse = total == 0.0f ? 0.0f : 1.0f / total;
    Vector merged;
#pragma unroll
    for (int c = 0; c < kVector; ++c) merged.values[c] = sum[c] * inverse;
    merged.store(p.o, row * p.o_row + head * p.o_head + column);
    if (chunk == 0 && p.lse != nullptr) {
      p.lse[row * p.lse_row + head * p.lse_head] =
          total == 0.0f ? -INFINITY : base + ptx::log2_approx(total);
    }
  }
};

template <class Element, int kVector>
__global__ void __launch_bounds__(256) merge_kernel(const __grid_constant__ MergeParams p) {
  const pipe::RowItems items{p.rows, p.rows_per_block, p.heads, p.chunks};
  pipe::for_each_item(items, [&](std::int64_t row, int head, int chunk) {
    Merge<Element, kVector>::run(p, row, head, chunk);
  });
}

}  // namespace tilegate::kernel
