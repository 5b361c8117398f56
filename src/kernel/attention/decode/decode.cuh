// SPDX-License-Identifier: Apache-2.0
// Paged decode: o = softmax(q k^T) v for up to 16 query rows a request over paged keys.
//
// A block (worker) walks its segments of the line of KV tiles (schedule.cuh), 64 keys a
// tile. Each of its four warps owns 16 keys of every tile and runs alone: it gathers its own K and
// V rows with cp.async into its own ring of stages, multiplies all packed query rows with them
// (mma.sync) and keeps its own running maximum, sum and output. The four meet once a segment, in
// shared memory, and write the output, or a partial result, merged by the worker with the unit's
// last part (tag.cuh) or by decode_combine. Bound by the bytes of K and V: they are read
// once; everything else hides behind those loads as long as enough stages are in flight
// (docs/design/decode.md).
#pragma once

#include <type_traits>

#include "kernel/attention/decode/combine.cuh"
#include "kernel/attention/decode/loader.cuh"
#include "kernel/attention/decode/narrow_warp.cuh"
#include "kernel/attention/decode/tag.cuh"
#include "kernel/attention/decode/warp.cuh"
#include "kernel/ptx/grid.cuh"

namespace tilegate::kernel {

template <class Element, int kDim, int kRows, int kStages>
struct Decode {
  static constexpr bool kNarrow = kRows < kDecodeTileRows;
  static constexpr int kMTiles = kNarrow ? 1 : kRows / kDecodeTileRows;
  using Warp = std::conditional_t<kNarrow, DecodeNarrowWarp<Element, kDim>,
                                  DecodeWarp<Element, kDim, kMTiles>>;
  // Of units whose query rows are loaded ahead; two m-tiles leave no room for that.
  static constexpr int kQuerySlots = kMTiles == 1 ? kStages : 0;
  using Loader = DecodeLoader<kDim, kStages, kQuerySlots>;
  using Combine = DecodeCombine<Element, kDim>;
  static constexpr int kThreads = kWorkerThreads;
  static constexpr int kStoredRows = kDecodeTileRows * kMTiles;

  struct SharedStorage {
    alignas(1024) unsigned char stages[kStages][kDecodeWarps][Loader::kStageBytes];
    alignas(1024) unsigned char queries[kQuerySlots > 0 ? kQuerySlots : 1][kStoredRows * kDim * 2];
    PageEntry entries[kDecodeWarps][Loader::kEntries];
    float row_max[kDecodeWarps][kStoredRows];
    float row_sum[kDecodeWarps][kStoredRows];
    ScheduleStorage schedule;
  };

  // Threads that share a row when a segment of a narrow kernel ends.
  static constexpr int kNarrowLanes = kThreads / 8;

  // What registers must leave room for; shared memory decides on the device.
  static constexpr int kBlocksPerSm = kDim == 256 ? 1 : 2;

  // One row of a finished segment: the weight of each warp's output, and where the merged row goes.
  struct Row {
    float factor[kDecodeWarps];
    std::uint16_t* o = nullptr;  // the output row of a whole unit, or
    float* partial = nullptr;    // the partial row of a shared one; neither: not a row
  };

  // Merges the statistics of the four warps; one of the threads that share a row writes the lse.
  // `slot` is where the partial result goes, -1 for a whole unit.
  static __device__ __forceinline__ Row merge_row(const DecodeParams& p,
                                                  const SharedStorage& shared, const Cursor& at,
                                                  int row, std::int64_t slot) {
    Row merged;
    const RowPlace place = row_place(p, at.kv_head, at.row_block, row);
    if (!place.valid) return merged;
    float top = shared.row_max[0][row];
#pragma unroll
    for (int w = 1; w < kDecodeWarps; ++w) top = fmaxf(top, shared.row_max[w][row]);
    float sum = 0.0f;
    if (p.sinks != nullptr && slot < 0) {
      const float sink = p.sinks[place.head * p.sink_stride] * kLog2e;
      top = fmaxf(top, sink);
      sum = ptx::exp2_approx(sink - finite_base(top));
    }
    const float base = finite_base(top);
#pragma unroll
    for (int w = 0; w < kDecodeWarps; ++w) {
      merged.factor[w] = ptx::exp2_approx(shared.row_max[w][row] - base);
      sum += merged.factor[w] * shared.row_sum[w][row];
    }
    const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
#pragma unroll
    for (int w = 0; w < kDecodeWarps; ++w) merged.factor[w] *= inverse;
    float lse = sum == 0.0f ? -INFINITY : base + ptx::log2_approx(sum);
    float* lse_at = nullptr;
    if (slot >= 0) {
      merged.partial = p.partial_o + (slot * p.block_rows + row) * kDim;
      lse_at = p.partial_lse + slot * p.block_rows + row;
    } else {
      merged.o = static_cast<std::uint16_t*>(p.o) + at.request * p.o_batch + place.token * p.o_row +
                 place.head * p.o_head;
      lse *= p.lse_scale;
      if (p.lse != nullptr) {
        lse_at =
            p.lse + at.request * p.lse_batch + place.token * p.lse_row + place.head * p.lse_head;
      }
    }
    const bool writes = kNarrow ? worker_thread() % kNarrowLanes == 0
                                : worker_thread() < 32 && worker_thread() % 4 == 0;
    if (writes && lse_at != nullptr) *lse_at = lse;
    return merged;
  }

  static __device__ __forceinline__ void store_pair(const Row& row, int column, float lo,
                                                    float hi) {
    if (row.o != nullptr) {
      *reinterpret_cast<std::uint32_t*>(row.o + column) = Element::pack(lo, hi);
    } else if (row.partial != nullptr) {
      *reinterpret_cast<float2*>(row.partial + column) = make_float2(lo, hi);
    }
  }

  // Merges the warps' results of a segment and writes them. `scratch` is a stage that holds nothing
  // in flight: a warp's part of it holds exactly its output of 16 rows in fp32.
  static __device__ __forceinline__ void finish(SharedStorage& shared, const DecodeParams& p,
                                                Warp& state, const Cursor& at, int scratch,
                                                std::int64_t slot) {
    const int lane = worker_thread() % 32;
    const int warp = worker_thread() / 32;
    state.store_statistics(shared.row_max[warp], shared.row_sum[warp]);
#pragma unroll
    for (int m = 0; m < kMTiles; ++m) {
      state.store_output(m, reinterpret_cast<float4*>(shared.stages[scratch][warp]));
      worker_sync();
      Row rows[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        rows[half] = merge_row(p, shared, at, m * kDecodeTileRows + half * 8 + lane / 4, slot);
      }
#pragma unroll
      for (int i = 0; i < kDim / 8 / kDecodeWarps; ++i) {
        const int n = warp * (kDim / 8 / kDecodeWarps) + i;
        float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
        for (int w = 0; w < kDecodeWarps; ++w) {
          const float4 part =
              reinterpret_cast<const float4*>(shared.stages[scratch][w])[n * 32 + lane];
          sum.x += rows[0].factor[w] * part.x;
          sum.y += rows[0].factor[w] * part.y;
          sum.z += rows[1].factor[w] * part.z;
          sum.w += rows[1].factor[w] * part.w;
        }
        const int column = n * 8 + lane % 4 * 2;
        store_pair(rows[0], column, sum.x, sum.y);
        store_pair(rows[1], column, sum.z, sum.w);
      }
      worker_sync();  // the scratch and the statistics are read before they are written again
    }
  }

  // The same for at most 8 rows, a row for every kNarrowLanes threads.
  static __device__ __forceinline__ void finish_narrow(SharedStorage& shared, const DecodeParams& p,
                                                       Warp& state, const Cursor& at, int scratch,
                                                       std::int64_t slot) {
    constexpr int kStep = kNarrowLanes * 4;  // columns between a thread's vectors
    const int warp = worker_thread() / 32;
    const int row = worker_thread() / kNarrowLanes;
    state.store_statistics(shared.row_max[warp], shared.row_sum[warp]);
    state.store_rows(reinterpret_cast<float*>(shared.stages[scratch][warp]));
    worker_sync();
    const Row merged = merge_row(p, shared, at, row, slot);
#pragma unroll
    for (int i = 0; i < kDim / kStep; ++i) {
      const int column = i * kStep + worker_thread() % kNarrowLanes * 4;
      float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
      for (int w = 0; w < kDecodeWarps; ++w) {
        const auto* from = reinterpret_cast<const float*>(shared.stages[scratch][w]);
        const float4 part =
            *reinterpret_cast<const float4*>(from + row * Warp::kScratchRow + column);
        sum.x += merged.factor[w] * part.x;
        sum.y += merged.factor[w] * part.y;
        sum.z += merged.factor[w] * part.z;
        sum.w += merged.factor[w] * part.w;
      }
      store_pair(merged, column, sum.x, sum.y);
      store_pair(merged, column + 2, sum.z, sum.w);
    }
    worker_sync();  // the scratch and the statistics are read before they are written again
  }

  // Where a segment's partial result goes, or -1 when the segment is its whole unit.
  static __device__ __forceinline__ std::int64_t slot_of(const DecodeParams& p, const Cursor& at,
                                                         int worker, int worker_begin) {
    if (at.whole_unit()) return -1;
    if (p.cut == DecodeCut::kEven) {
      return 2 * static_cast<std::int64_t>(worker) + (at.position == worker_begin ? 0 : 1);
    }
    if (at.offset == 0 && worker_thread() == 0) {
      p.unit_slots[(at.kv_head * p.row_blocks + at.row_block) * p.batch + at.request] = at.position;
    }
    return at.position;
  }

  // Merges the unit whose last part is this worker's first segment. It waits for workers before it
  // only, which the device started earlier.
  static __device__ __forceinline__ void merge_unit(const DecodeParams& p, SharedStorage& shared,
                                                    const LinePlace& place, int worker) {
    const LineCut cut(place.per_head * p.heads_kv * p.row_blocks, p.workers);
    CombineUnit unit;
    unit.kv_head = place.head / p.row_blocks;
    unit.row_block = place.head - unit.kv_head * p.row_blocks;
    unit.request = place.request;
    int first = worker - 1;
    while (cut.begin(first) > place.unit_begin) --first;
    unit.parts = worker - first + 1;
    unit.first_slot = 2 * first + (cut.begin(first) == place.unit_begin ? 0 : 1);
    unit.next_slot = 2 * (first + 1);
    unit.slot_step = 2;
    for (int w = first + worker_thread(); w < worker; w += kThreads) {
      take_tag(reinterpret_cast<uint4*>(p.tags) + w);
    }
    worker_sync();
    // Each way a warp has the loads of kBatch parts in flight.
    if (p.block_rows > 2 || unit.parts <= Combine::kBatch) {
      Combine::combine_apart(p, unit);
    } else {
      auto& scratch = *reinterpret_cast<typename Combine::SharedStorage*>(shared.stages[0]);
      for (int row = 0; row < p.block_rows; ++row) {
        Combine::combine_together(p, unit, row, scratch);
      }
    }
  }

  static __device__ __forceinline__ void run(const DecodeParams& p, SharedStorage& shared,
                                             int worker) {
    const int warp = worker_thread() / 32;
    const LinePlace place = find_worker(p, worker, shared.schedule);
    if (place.begin == place.end) return;
    Cursor at(p, place);
    Loader loader(at, shared.entries[warp], ptx::shared_address(shared.stages[0][warp]),
                  ptx::shared_address(shared.queries));
    Warp state;
    int stage = 0;
    int lead = Loader::kLead;  // steps before the first tile
    int unit = -1;             // whose queries are loaded
    int query_slot = -1;
    for (; !at.done(); at.next_segment(p)) {
      state.clear();
      while (at.tile < at.tile_end) {
        __syncwarp();  // nobody reads the stage any more that is filled now
        loader.step(p);
        ptx::cp_async_commit();
        ptx::cp_async_wait<kStages - 1>();
        __syncwarp();  // all lanes' copies are here
        if (lead > 0) {
          --lead;
          continue;
        }
        if (unit != at.unit()) {
          unit = at.unit();
          query_slot = query_slot + 1 >= kQuerySlots ? 0 : query_slot + 1;
          if constexpr (kQuerySlots == 0) Warp::store_queries(p, at, shared.queries[0]);
          worker_sync();  // the other warps' rows are here, too
          state.load_queries(ptx::shared_address(shared.queries[query_slot]));
        }
        state.multiply(p, at, at.tile * kDecodeTileKeys + warp * 16,
                       ptx::shared_address(shared.stages[stage][warp]));
        stage = stage + 1 == kStages ? 0 : stage + 1;
        ++at.tile;
      }
      const std::int64_t slot = slot_of(p, at, worker, place.begin);
      if (at.span.kv_len == kTooLong) state.spoil();
      if constexpr (kNarrow) {
        finish_narrow(shared, p, state, at, loader.free_stage(), slot);
      } else {
        finish(shared, p, state, at, loader.free_stage(), slot);
      }
    }
    ptx::cp_async_wait<0>();
    if (p.tags == nullptr) return;
    // The last segment is a part that somebody waits for.
    if (at.offset < at.span.granules && worker_thread() == 0) {
      publish(reinterpret_cast<uint4*>(p.tags) + worker);
    }
    const int unit_end = place.unit_begin + request_span(p, place.request).granules;
    if (place.begin > place.unit_begin && unit_end <= place.end) {
      merge_unit(p, shared, place, worker);
    }
  }
};

template <class Element, int kDim, int kRows, int kStages>
__global__ void __launch_bounds__(32 * kDecodeWarps,
                                  Decode<Element, kDim, kRows, kStages>::kBlocksPerSm)
    decode_kernel(const __grid_constant__ DecodeParams p) {
  __builtin_assume(threadIdx.x < kWorkerThreads);
  using Kernel = Decode<Element, kDim, kRows, kStages>;
  extern __shared__ __align__(1024) unsigned char raw[];
  // Started early behind its predecessor, whose outputs may be this call's inputs.
  ptx::wait_for_predecessor();
  ptx::launch_dependents();
  Kernel::run(p, *reinterpret_cast<typename Kernel::SharedStorage*>(raw),
              static_cast<int>(blockIdx.x));
}

}  // namespace tilegate::kernel
