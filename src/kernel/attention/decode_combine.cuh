// SPDX-License-Identifier: Apache-2.0
// Merges the partial results of decode units that several segments share: o = sum_i w_i o_i with
// w_i = 2^(lse_i - lse), parts in the order of their keys, so the bits do not depend on timing.
//
// kEven: block x looks at the boundary before worker x and serves the unit it cuts, if it is the
// first boundary in that unit. kPinned: block x serves unit x, folded over the grid. The rows of a
// unit are dealt to the blocks along y. Four warps share the parts of a row.
#pragma once

#include "kernel/attention/decode_schedule.cuh"
#include "kernel/attention/decode_warp.cuh"
#include "kernel/ptx/grid.cuh"

namespace tilegate::kernel {

// The parts of one unit: part 0 is in slot `first_slot`, part i >= 1 in `next_slot + (i - 1) *
// slot_step`.
struct CombineUnit {
  int kv_head = 0;
  int row_block = 0;
  int request = 0;
  int parts = 0;
  int first_slot = 0;
  int next_slot = 0;
  int slot_step = 1;

  __device__ __forceinline__ std::int64_t slot(int part) const {
    return part == 0 ? first_slot : next_slot + (part - 1) * slot_step;
  }
};

template <class Element, int kDim>
struct DecodeCombine {
  static constexpr int kWarps = 4;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kVector = kDim / 32;  // columns a lane

  struct SharedStorage {
    float output[kWarps][kDim];
    ScheduleStorage schedule;
  };

  // The unit that the boundary before worker `w` cuts; no parts unless it is the unit's first.
  static __device__ __forceinline__ CombineUnit cut_unit(const DecodeParams& p, int w,
                                                         SharedStorage& shared) {
    CombineUnit unit;
    if (w == 0) return unit;
    const LinePlace place = find_worker<kThreads>(p, w, shared.schedule);
    if (place.begin == place.end || place.unit_begin == place.begin) return unit;
    const LineCut cut(place.per_head * p.heads_kv * p.row_blocks, p.workers);
    const int before = cut.begin(w - 1);
    if (before > place.unit_begin) return unit;
    unit.kv_head = place.head / p.row_blocks;
    unit.row_block = place.head - unit.kv_head * p.row_blocks;
    unit.request = place.request;
    unit.first_slot = 2 * (w - 1) + (before == place.unit_begin ? 0 : 1);
    unit.next_slot = 2 * w;
    unit.slot_step = 2;
    const int unit_end = place.unit_begin + request_span(p, place.request).granules;
    unit.parts = 1;
    for (int v = w; v < cut.workers && cut.begin(v) < unit_end; ++v) ++unit.parts;
    return unit;
  }

  static __device__ __forceinline__ CombineUnit pinned_unit(const DecodeParams& p, int number) {
    CombineUnit unit;
    const int head = number / p.batch;
    unit.kv_head = head / p.row_blocks;
    unit.row_block = head - unit.kv_head * p.row_blocks;
    unit.request = number - head * p.batch;
    const int granules = request_span(p, unit.request).granules;
    if (granules == 1) return unit;
    unit.first_slot = p.unit_slots[number];
    unit.next_slot = unit.first_slot + 1;
    // Nothing can be merged of a request longer than planned.
    if (unit.first_slot + static_cast<std::int64_t>(granules) <= p.slots) unit.parts = granules;
    return unit;
  }

  static __device__ __forceinline__ float top_lse(const DecodeParams& p, const CombineUnit& unit,
                                                  int row) {
    float top = -INFINITY;
    for (int i = static_cast<int>(threadIdx.x % 32); i < unit.parts; i += 32) {
      top = fmaxf(top, p.partial_lse[unit.slot(i) * p.block_rows + row]);
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
      top = fmaxf(top, __shfl_xor_sync(tile::kFullWarp, top, step));
    }
    return top;
  }

  // This warp's share of the weighted sum, in acc; returns the sum of all weights.
  static __device__ __forceinline__ float weigh(const DecodeParams& p, const CombineUnit& unit,
                                                int row, float base, float (&acc)[kVector]) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int warp = static_cast<int>(threadIdx.x / 32);
    constexpr int kBatch = 4;  // loads in flight
    float sum = 0.0f;
    for (int first = 0; first < unit.parts; first += 32) {
      const int own = first + lane;
      float weight = 0.0f;
      if (own < unit.parts) {
        weight = ptx::exp2_approx(p.partial_lse[unit.slot(own) * p.block_rows + row] - base);
      }
      sum += weight;
      for (int j = 0; j < 32 / kWarps && first + j * kWarps < unit.parts; j += kBatch) {
#pragma unroll
        for (int b = 0; b < kBatch; ++b) {
          const int i = (j + b) * kWarps + warp;
          const float* part = p.partial_o + (unit.slot(first + i) * p.block_rows + row) * kDim;
          const float w = __shfl_sync(tile::kFullWarp, weight, i);
#pragma unroll
          for (int c = 0; c < kVector; ++c) {
            if (first + i < unit.parts) acc[c] += w * part[c * 32 + lane];
          }
        }
      }
    }
    return tile::warp_sum(sum);
  }

  static __device__ __forceinline__ void combine_row(const DecodeParams& p, const CombineUnit& unit,
                                                     int row, SharedStorage& shared) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int warp = static_cast<int>(threadIdx.x / 32);
    const RowPlace place = row_place(p, unit.kv_head, unit.row_block, row);
    if (!place.valid) return;
    float top = top_lse(p, unit, row);
    float total = 0.0f;
    if (p.sinks != nullptr) {
      const float sink = p.sinks[place.head * p.sink_stride] * kLog2e;
      top = fmaxf(top, sink);
      total = ptx::exp2_approx(sink - finite_base(top));
    }
    const float base = finite_base(top);
    float acc[kVector] = {};
    total += weigh(p, unit, row, base, acc);
#pragma unroll
    for (int c = 0; c < kVector; ++c) shared.output[warp][c * 32 + lane] = acc[c];
    __syncthreads();
    const float inverse = total == 0.0f ? 0.0f : 1.0f / total;
    const int column = 2 * static_cast<int>(threadIdx.x);
    if (column < kDim) {
      float lo = 0.0f;
      float hi = 0.0f;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) {
        lo += shared.output[w][column];
        hi += shared.output[w][column + 1];
      }
      const std::int64_t offset =
          unit.request * p.o_batch + place.token * p.o_row + place.head * p.o_head + column;
      *reinterpret_cast<std::uint32_t*>(static_cast<std::uint16_t*>(p.o) + offset) =
          Element::pack(lo * inverse, hi * inverse);
    }
    if (threadIdx.x == 0 && p.lse != nullptr) {
      const float lse = total == 0.0f ? -INFINITY : base + ptx::log2_approx(total);
      p.lse[unit.request * p.lse_batch + place.token * p.lse_row + place.head * p.lse_head] =
          lse * p.lse_scale;
    }
    __syncthreads();  // shared.output is read before the next row writes it
  }

  static __device__ __forceinline__ void run(const DecodeParams& p) {
    static_assert(kDim <= 2 * kThreads, "a thread writes at most one pair of columns");
    __shared__ SharedStorage shared;
    ptx::launch_dependents();
    const bool even = p.cut == DecodeCut::kEven;
    const int units = even ? static_cast<int>(gridDim.x) : p.heads_kv * p.row_blocks * p.batch;
    CombineUnit unit;
    // The lengths were there before decode began: only its partial results must be awaited.
    if (even) unit = cut_unit(p, static_cast<int>(blockIdx.x), shared);
    ptx::wait_for_predecessor();
    for (int number = static_cast<int>(blockIdx.x); number < units;
         number += static_cast<int>(gridDim.x)) {
      if (!even) unit = pinned_unit(p, number);
      if (unit.parts == 0) continue;
      for (int row = static_cast<int>(blockIdx.y); row < p.block_rows;
           row += static_cast<int>(gridDim.y)) {
        combine_row(p, unit, row, shared);
      }
    }
  }
};

template <class Element, int kDim>
__global__ void __launch_bounds__(128)
    decode_combine_kernel(const __grid_constant__ DecodeParams p) {
  DecodeCombine<Element, kDim>::run(p);
}

}  // namespace tilegate::kernel
