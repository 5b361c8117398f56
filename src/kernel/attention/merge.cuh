// SPDX-License-Identifier: Apache-2.0
// Merges P partial attention states a row: o = sum_p w_p v_p, w_p = 2^(s_p - lse), lse = log2 sum_p
// 2^s_p. A thread owns kVector columns of one (row, head) and takes the parts kBatch at a time, in
// order: all s of a batch are in flight together, then the v of its parts whose s is not -inf. Sums
// are kept relative to the largest s so far. Bound by the bytes of v and o.
#pragma once

#include "kernel/attention/merge_params.h"
#include "kernel/pipe/row_items.cuh"
#include "kernel/tile/vector.cuh"

namespace tilegate::kernel {

template <class Element, int kVector, int kBatch>
struct Merge {
  using Vector = tile::Vector<Element, kVector>;

  float top = -INFINITY;  // the largest s so far
  float total = 0.0f;     // of the weights 2^(s - top)
  float sum[kVector] = {};

  // What `top` stands for in exponents: 0 while no part has weight, so that no -inf is subtracted.
  __device__ __forceinline__ float base() const { return top == -INFINITY ? 0.0f : top; }

  __device__ __forceinline__ void raise(float candidate) {
    if (!(candidate > top)) return;
    const float factor = ptx::exp2_approx(top - candidate);  // 0 before the first part
    total *= factor;
#pragma unroll
    for (int c = 0; c < kVector; ++c) sum[c] *= factor;
    top = candidate;
  }

  __device__ __forceinline__ void add(const Vector& part, float s) {
    const float weight = ptx::exp2_approx(s - base());
    total += weight;
    float values[kVector];
    part.unpack(values);
#pragma unroll
    for (int c = 0; c < kVector; ++c) sum[c] += weight * values[c];
  }

  // `s` and `v`: of the first of `left` parts of the thread's row, head and columns. So that all
  // loads are in flight together none stands under a branch (one that must not happen reads the
  // batch's first s, or `spare`, instead), and a barrier keeps their uses behind the last of them.
  __device__ __forceinline__ void add_batch(const MergeParams& p, const float* s, const char* v,
                                            const char* spare, int left) {
    float own[kBatch];
    Vector part[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) own[b] = __ldg(b < left ? s + b * p.s_part : s);
    float highest = own[0];
#pragma unroll
    for (int b = 1; b < kBatch; ++b) {
      if (b >= left) own[b] = -INFINITY;
      highest = fmaxf(highest, own[b]);
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      part[b].load(own[b] == -INFINITY ? spare : v);
      v += p.v_part * Element::kBytes;
    }
    __syncwarp();
    raise(highest);
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      if (own[b] == -INFINITY) part[b] = {};
      add(part[b], own[b]);
    }
  }

  // In elements of o.
  static __device__ __forceinline__ std::int64_t output(const MergeParams& p,
                                                        const pipe::RowItem& item) {
    return item.row * p.o_row + item.head * p.o_head + item.chunk * kVector;
  }

  __device__ __forceinline__ void store(const MergeParams& p, const pipe::RowItem& item) {
    const float inverse = total == 0.0f ? 0.0f : 1.0f / total;
#pragma unroll
    for (int c = 0; c < kVector; ++c) sum[c] *= inverse;
    if (!item.valid) return;
    Vector::store(p.o, output(p, item), sum);
    if (item.chunk == 0 && p.lse != nullptr) {
      p.lse[item.row * p.lse_row + item.head * p.lse_head] =
          total == 0.0f ? -INFINITY : base() + ptx::log2_approx(total);
    }
  }
};

template <class Element, int kVector, int kBatch>
__global__ void __launch_bounds__(256) merge_kernel(const __grid_constant__ MergeParams p) {
  const pipe::RowItems items{p.rows, p.rows_per_block, p.heads, p.chunks};
  pipe::for_each_batch<1>(items, [&](const pipe::RowItem(&batch)[1]) {
    const pipe::RowItem& item = batch[0];
    Merge<Element, kVector, kBatch> merge;
    const float* s = p.s + item.row * p.s_row + item.head * p.s_head;
    const char* v =
        static_cast<const char*>(p.v) +
        (item.row * p.v_row + item.head * p.v_head + item.chunk * kVector) * Element::kBytes;
    const char* spare = static_cast<const char*>(p.o) + merge.output(p, item) * Element::kBytes;
    for (int left = p.parts; left > 0; left -= kBatch) {
      merge.add_batch(p, s, v, spare, left);
      s += kBatch * p.s_part;
      v += kBatch * p.v_part * Element::kBytes;
    }
    merge.store(p, item);
  });
}

}  // namespace tilegate::kernel
