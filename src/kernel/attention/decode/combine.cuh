// SPDX-License-Identifier: Apache-2.0
// Merges the partial results of decode units that several segments share: o = sum_i w_i o_i with
// w_i = 2^(lse_i - lse), parts in the order of their keys, so the bits do not depend on timing.
//
// kEven: block x looks at the boundary before worker x and serves the unit it cuts, if it is the
// first boundary in that unit. kPinned: block x serves unit x, folded over the grid. Few parts a
// unit: each warp takes rows of its own. Many: the blocks along y take a row each and their warps
// share its parts. The kernel is small enough to sit beside decode's blocks and find its unit while
// they work.
#pragma once

#include "kernel/attention/decode/schedule.cuh"
#include "kernel/attention/decode/warp.cuh"
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
  static constexpr int kVector = kDim / 32;  // columns a lane: pairs 64 apart
  // Parts loaded at once; with 10 of 64 columns ptxas spills 8 bytes on sm_80.
  static constexpr int kBatch = kVector <= 2 ? 8 : kVector <= 4 ? 10 : 4;

  // The weighted sum of some parts of a row, relative to 2^top.
  struct Share {
    float top = -INFINITY;
    float sum = 0.0f;
    float acc[kVector] = {};

    __device__ __forceinline__ void raise(float grown) {
      const float factor = ptx::exp2_approx(top - finite_base(grown));
      top = grown;
      sum *= factor;
#pragma unroll
      for (int c = 0; c < kVector; ++c) acc[c] *= factor;
    }
  };

  struct SharedStorage {
    alignas(16) float acc[kWarps][kVector][32];
    float top[kWarps];
    float sum[kWarps];
    ScheduleStorage schedule;
  };

  // The unit that the boundary before worker `w` cuts; no parts unless it is the unit's first.
  static __device__ __forceinline__ CombineUnit cut_unit(const DecodeParams& p, int w,
                                                         SharedStorage& shared) {
    CombineUnit unit;
    if (w == 0) return unit;
    const LinePlace place = find_worker(p, w, shared.schedule);
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
    unit.parts = granules;
    unit.first_slot = p.unit_slots[number];
    unit.next_slot = unit.first_slot + 1;
    return unit;
  }

  // Parts first, first + step, .. of a row.
  static __device__ __forceinline__ Share weigh(const DecodeParams& p, const CombineUnit& unit,
                                                int row, int first, int step) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    Share share;
    for (; first < unit.parts; first += kBatch * step) {
      float lse[kBatch];
      float2 columns[kBatch][kVector / 2];
      float grown = share.top;
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        const int part = first + b * step;
        const std::int64_t at = unit.slot(part) * p.block_rows + row;
        lse[b] = part < unit.parts ? p.partial_lse[at] : -INFINITY;
        const auto* from = reinterpret_cast<const float2*>(p.partial_o + at * kDim);
#pragma unroll
        for (int c = 0; c < kVector / 2; ++c) {
          columns[b][c] = part < unit.parts ? from[c * 32 + lane] : make_float2(0.0f, 0.0f);
        }
        grown = fmaxf(grown, lse[b]);
      }
      share.raise(grown);
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        const float weight = ptx::exp2_approx(lse[b] - finite_base(grown));
        share.sum += weight;
#pragma unroll
        for (int c = 0; c < kVector / 2; ++c) {
          share.acc[2 * c] += weight * columns[b][c].x;
          share.acc[2 * c + 1] += weight * columns[b][c].y;
        }
      }
    }
    return share;
  }

  // Adds the sink and writes the row; one warp.
  static __device__ __forceinline__ void write_row(const DecodeParams& p, const CombineUnit& unit,
                                                   const RowPlace& place, Share share) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    if (p.sinks != nullptr) {
      const float sink = p.sinks[place.head * p.sink_stride] * kLog2e;
      share.raise(fmaxf(share.top, sink));
      share.sum += ptx::exp2_approx(sink - finite_base(share.top));
    }
    const float inverse = share.sum == 0.0f ? 0.0f : 1.0f / share.sum;
    auto* row = static_cast<std::uint16_t*>(p.o) + unit.request * p.o_batch +
                place.token * p.o_row + place.head * p.o_head;
#pragma unroll
    for (int c = 0; c < kVector / 2; ++c) {
      *reinterpret_cast<std::uint32_t*>(row + 2 * (c * 32 + lane)) =
          Element::pack(share.acc[2 * c] * inverse, share.acc[2 * c + 1] * inverse);
    }
    if (lane == 0 && p.lse != nullptr) {
      const float lse =
          share.sum == 0.0f ? -INFINITY : finite_base(share.top) + ptx::log2_approx(share.sum);
      p.lse[unit.request * p.lse_batch + place.token * p.lse_row + place.head * p.lse_head] =
          lse * p.lse_scale;
    }
  }

  // A row whose parts all warps share; the first one merges the shares, in order.
  static __device__ __forceinline__ void combine_together(const DecodeParams& p,
                                                          const CombineUnit& unit, int row,
                                                          SharedStorage& shared) {
    const int lane = worker_thread() % 32;
    const int warp = worker_thread() / 32;
    const RowPlace place = row_place(p, unit.kv_head, unit.row_block, row);
    if (!place.valid) return;
    const Share own = weigh(p, unit, row, warp, kWarps);
#pragma unroll
    for (int c = 0; c < kVector; ++c) shared.acc[warp][c][lane] = own.acc[c];
    if (lane == 0) shared.top[warp] = own.top;
    if (lane == 0) shared.sum[warp] = own.sum;
    worker_sync();
    if (warp == 0) {
      Share merged = own;
      for (int w = 1; w < kWarps; ++w) {
        merged.raise(fmaxf(merged.top, shared.top[w]));
        const float factor = ptx::exp2_approx(shared.top[w] - finite_base(merged.top));
        merged.sum += factor * shared.sum[w];
#pragma unroll
        for (int c = 0; c < kVector; ++c) merged.acc[c] += factor * shared.acc[w][c][lane];
      }
      write_row(p, unit, place, merged);
    }
    worker_sync();  // the shares are read before the next row writes them
  }

  // A warp takes rows of its own.
  static __device__ __forceinline__ void combine_apart(const DecodeParams& p,
                                                       const CombineUnit& unit) {
    for (int row = worker_thread() / 32; row < p.block_rows; row += kWarps) {
      const RowPlace place = row_place(p, unit.kv_head, unit.row_block, row);
      if (place.valid) write_row(p, unit, place, weigh(p, unit, row, 0, 1));
    }
  }

  static __device__ __forceinline__ void combine(const DecodeParams& p, const CombineUnit& unit,
                                                 SharedStorage& shared) {
    if (gridDim.y == 1) return combine_apart(p, unit);
    for (int row = static_cast<int>(blockIdx.y); row < p.block_rows;
         row += static_cast<int>(gridDim.y)) {
      combine_together(p, unit, row, shared);
    }
  }

  static __device__ __forceinline__ void run(const DecodeParams& p) {
    __shared__ SharedStorage shared;
    ptx::launch_dependents();
    const bool even = p.cut == DecodeCut::kEven;
    const int units = even ? static_cast<int>(gridDim.x) : p.heads_kv * p.row_blocks * p.batch;
    CombineUnit unit;
    // The lengths were there before decode began: only its partial results must be awaited.
    if (even) unit = cut_unit(p, static_cast<int>(blockIdx.x), shared);
    // Blocks without work make room. One of them stays, so that this grid ends after decode.
    if (even && unit.parts == 0 && blockIdx.x + blockIdx.y > 0) return;
    ptx::wait_for_predecessor();
    for (int number = static_cast<int>(blockIdx.x); number < units;
         number += static_cast<int>(gridDim.x)) {
      if (!even) unit = pinned_unit(p, number);
      if (unit.parts == 0) continue;
      combine(p, unit, shared);
    }
  }
};

template <class Element, int kDim>
__global__ void __launch_bounds__(128)
    decode_combine_kernel(const __grid_constant__ DecodeParams p) {
  __builtin_assume(threadIdx.x < kWorkerThreads);
  DecodeCombine<Element, kDim>::run(p);
}

}  // namespace tilegate::kernel
