// SPDX-License-Identifier: Apache-2.0
// Paged decode where every (request, KV head) unit of at most 8 rows has blocks of its own: a
// cluster of 1 to 8 blocks of eight warps. Warp w of block r takes chunks of 16 keys r * 8 + w, and
// every 8 * blocks-th after it, gathers their rows into a ring of its own and multiplies them. The
// warps of a block merge in its shared memory, the blocks through distributed shared memory, each
// of them writing an equal part of the columns: no workspace and no second kernel. For units that
// are about equally long and not more than the device has SMs; where the lengths of a call are
// not, the same kernel does the split form (decode.cuh), half a block a worker.
#pragma once

#include "kernel/attention/decode/decode.cuh"
#include "kernel/ptx/cluster.cuh"

namespace tilegate::kernel {

template <class Element, int kDim, int kStages>
struct DecodeUnit {
  using Warp = DecodeNarrowWarp<Element, kDim>;
  static constexpr int kWarps = 8;
  static constexpr int kKeys = 16;
  static constexpr int kRows = 8;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kMaxBlocks = 8;
  static constexpr int kTileBytes = kKeys * kDim * 2;
  static constexpr int kStageBytes = 2 * kTileBytes;

  struct SharedStorage {
    alignas(1024) unsigned char stages[kWarps][kStages][kStageBytes];
    alignas(1024) unsigned char queries[16 * kDim * 2];
    float received[kRows * kDim];          // [block][row][own columns]
    float2 statistics[kMaxBlocks][kRows];  // of each block: maximum and sum
    float row_max[kWarps][kRows];
    float row_sum[kWarps][kRows];
  };

  struct Place {
    int kv_head;
    int row_block;
    int request;
    RequestSpan span;
  };

  // Pages at and behind `limit` are not read.
  static __device__ __forceinline__ int page_of(const DecodeParams& p, const int* pages, int chunk,
                                                int limit) {
    const int ordinal = place_of(p.table, chunk * kKeys).ordinal;
    return ordinal < limit ? page_at(p.table, pages, ordinal) : 0;
  }

  // Starts the copies of one chunk of keys.
  static __device__ __forceinline__ void copy(const DecodeParams& p, int kv_head, int chunk,
                                              int page, unsigned visible, std::uint32_t stage) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int first_row = lane / 8;
    const int piece = lane % 8;
    const int slot = place_of(p.table, chunk * kKeys).slot + first_row;
    const std::int64_t page64 = visible != 0 ? page : 0;
    const char* k = static_cast<const char*>(p.k) +
                    2 * (kv_head * p.k_head + page64 * p.k_page + slot * p.k_slot) + piece * 16;
    const char* v = static_cast<const char*>(p.v) +
                    2 * (kv_head * p.v_head + page64 * p.v_page + slot * p.v_slot) + piece * 16;
#pragma unroll
    for (int i = 0; i < kKeys / 4; ++i) {
      const int row = i * 4 + first_row;
      const int bytes = (visible >> row & 1u) != 0 ? 16 : 0;
      const std::uint32_t to =
          stage + tile::swizzled_offset<kDim>(row % 8, piece) + row / 8 * (8 * kDim * 2);
#pragma unroll
      for (int c = 0; c < kDim / 64; ++c) {
        ptx::cp_async_16(to + c * 128, k + 8 * i * p.k_slot + c * 128, bytes);
      }
#pragma unroll
      for (int c = 0; c < kDim / 64; ++c) {
        ptx::cp_async_16(to + kTileBytes + c * 128, v + 8 * i * p.v_slot + c * 128, bytes);
      }
    }
  }

  static __device__ __forceinline__ unsigned visible_keys(const DecodeParams& p, int kv_len,
                                                          int oldest, int chunk) {
    const int first = chunk * kKeys;
    const unsigned below_end = (1u << min(max(kv_len - first, 0), kKeys)) - 1u;
    const unsigned too_old = (1u << min(max(oldest - first, 0), kKeys)) - 1u;
    return below_end & ~too_old;
  }

  static __device__ __forceinline__ void copy_queries(const DecodeParams& p, const Place& at,
                                                      std::uint32_t to) {
    constexpr int kLanes = kThreads / kRows;
    const int row = static_cast<int>(threadIdx.x) / kLanes;
    const RowPlace place = row_place(p, at.kv_head, at.row_block, row);
    const auto* from = static_cast<const std::uint16_t*>(p.q);
    if (place.valid) from += at.request * p.q_batch + place.token * p.q_row + place.head * p.q_head;
#pragma unroll
    for (int i = 0; i < kDim / 2 / kLanes; ++i) {
      const int word = i * kLanes + static_cast<int>(threadIdx.x) % kLanes;
      ptx::cp_async_4(to + tile::swizzled_offset<kDim>(row, word / 4) + word % 4 * 4,
                      from + word * 2, place.valid ? 4 : 0);
    }
  }

  static __device__ __forceinline__ void run(const DecodeParams& p, SharedStorage& shared) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int warp = static_cast<int>(threadIdx.x / 32);
    const int rank = static_cast<int>(ptx::cluster_rank());
    const int size = p.unit_blocks;
    Place at;
    const int unit = static_cast<int>(blockIdx.x) / size;
    const int head = unit / p.batch;
    at.request = unit - head * p.batch;
    at.kv_head = head / p.row_blocks;
    at.row_block = head - at.kv_head * p.row_blocks;
    if (at.kv_head >= p.heads_kv) return;
    ptx::cluster_arrive();  // all blocks have begun: awaited before the first remote store
    const int stride = size * kWarps;
    int chunk = rank * kWarps + warp;  // the first of this warp, then every stride-th
    const int* pages = first_page(p.table, at.request);
    // Pages of the chunks to come, one a lane. Where a row of the table may be read to its end the
    // first need not wait for the length.
    const bool early = p.window_left < 0 && p.table.width > 0;
    int page = early ? page_of(p, pages, chunk + lane * stride, p.table.width) : 0;
    copy_queries(p, at, ptx::shared_address(shared.queries));
    ptx::cp_async_commit();
    at.span = request_span(p, at.request);
    const int kv_len = at.span.kv_len;
    const int end = (kv_len + kKeys - 1) / kKeys;
    const int limit = place_of(p.table, kv_len + p.table.page_size - 1).ordinal;
    const int oldest = p.window_left < 0 ? 0 : max(0, kv_len - p.q_len - p.window_left);
    if (!early) {
      chunk += oldest / kKeys;
      page = page_of(p, pages, chunk + lane * stride, limit);
    }
    const std::uint32_t stages = ptx::shared_address(shared.stages[warp][0]);
    int ahead = chunk;
    int turn = 0;
    int filled = 0;
    const auto issue = [&] {
      if (turn == 32) {
        turn = 0;
        page = page_of(p, pages, ahead + lane * stride, limit);
      }
      const int mine = __shfl_sync(tile::kFullWarp, page, turn);
      if (ahead < end) {
        copy(p, at.kv_head, ahead, mine, visible_keys(p, kv_len, oldest, ahead),
             stages + filled * kStageBytes);
      }
      ptx::cp_async_commit();
      ahead += stride;
      ++turn;
      filled = filled + 1 == kStages ? 0 : filled + 1;
    };
#pragma unroll 1
    for (int s = 0; s < kStages; ++s) issue();
    Warp state;
    state.clear();
    ptx::cp_async_wait<kStages>();
    __syncthreads();
    state.load_queries(ptx::shared_address(shared.queries));
    int stage = 0;
    for (; chunk < end; chunk += stride) {
      ptx::cp_async_wait<kStages - 1>();
      __syncwarp();
      state.multiply(p, at, chunk * kKeys, stages + stage * kStageBytes);
      stage = stage + 1 == kStages ? 0 : stage + 1;
      __syncwarp();
      issue();
    }
    ptx::cp_async_wait<0>();
    __syncwarp();
    state.store_statistics(shared.row_max[warp], shared.row_sum[warp]);
    state.store_rows(reinterpret_cast<float*>(shared.stages[warp][0]));
    __syncthreads();
    ptx::cluster_wait();
    merge_warps(p, shared, rank, size);
    __syncwarp();
    ptx::cluster_arrive();
    ptx::cluster_wait();
    write(p, shared, at, rank, size);
  }

  // Tells every block of the cluster the maximum and sum of this one's rows.
  static __device__ __forceinline__ void share_statistics(SharedStorage& shared, int rank,
                                                          int size) {
    const int row = static_cast<int>(threadIdx.x % kRows);
    float top = -INFINITY;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) top = fmaxf(top, shared.row_max[w][row]);
    const float base = finite_base(top);
    float sum = 0.0f;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      sum += ptx::exp2_approx(shared.row_max[w][row] - base) * shared.row_sum[w][row];
    }
    const std::uint32_t to = ptx::shared_address(&shared.statistics[rank][row]);
    for (int other = static_cast<int>(threadIdx.x) / kRows; other < size;
         other += kThreads / kRows) {
      ptx::store_remote(ptx::remote_address(to, static_cast<unsigned>(other)),
                        make_float2(top, sum));
    }
  }

  // Merges the warps of this block and hands each fragment to the block that will write it.
  static __device__ __forceinline__ void merge_warps(const DecodeParams& p, SharedStorage& shared,
                                                     int rank, int size) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int warp = static_cast<int>(threadIdx.x / 32);
    share_statistics(shared, rank, size);
    const int columns = kDim / size;  // a block
    for (int row = warp; row < p.block_rows; row += kWarps) {
      float top = -INFINITY;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) top = fmaxf(top, shared.row_max[w][row]);
      float factor[kWarps];
#pragma unroll
      for (int w = 0; w < kWarps; ++w) {
        factor[w] = ptx::exp2_approx(shared.row_max[w][row] - finite_base(top));
      }
#pragma unroll
      for (int column = lane * 4; column < kDim; column += 128) {
        float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
        for (int w = 0; w < kWarps; ++w) {
          const float4 part =
              *reinterpret_cast<const float4*>(reinterpret_cast<const float*>(shared.stages[w][0]) +
                                               row * Warp::kScratchRow + column);
          sum.x += factor[w] * part.x;
          sum.y += factor[w] * part.y;
          sum.z += factor[w] * part.z;
          sum.w += factor[w] * part.w;
        }
        const int other = column / columns;
        const std::uint32_t to = ptx::shared_address(
            &shared.received[(rank * kRows + row) * columns + column - other * columns]);
        ptx::store_remote(ptx::remote_address(to, static_cast<unsigned>(other)), sum);
      }
    }
  }

  // Merges the blocks' parts of this block's columns in their order and writes them.
  static __device__ __forceinline__ void write(const DecodeParams& p, const SharedStorage& shared,
                                               const Place& at, int rank, int size) {
    const int columns = kDim / size;
    const int pairs = columns / 2;
    for (int i = static_cast<int>(threadIdx.x); i < p.block_rows * pairs; i += kThreads) {
      const int row = i / pairs;
      const int column = (i - row * pairs) * 2;
      const RowPlace place = row_place(p, at.kv_head, at.row_block, row);
      if (!place.valid) continue;
      float top = -INFINITY;
      for (int r = 0; r < size; ++r) top = fmaxf(top, shared.statistics[r][row].x);
      float total = 0.0f;
      if (p.sinks != nullptr) {
        const float sink = p.sinks[place.head * p.sink_stride] * kLog2e;
        top = fmaxf(top, sink);
        total = ptx::exp2_approx(sink - finite_base(top));
      }
      float2 sum = make_float2(0.0f, 0.0f);
#pragma unroll 4
      for (int r = 0; r < size; ++r) {
        const float2 part = shared.statistics[r][row];
        const float factor = ptx::exp2_approx(part.x - finite_base(top));
        total += factor * part.y;
        const float2 x = *reinterpret_cast<const float2*>(
            &shared.received[(r * kRows + row) * columns + column]);
        sum.x += factor * x.x;
        sum.y += factor * x.y;
      }
      const float inverse = total == 0.0f ? 0.0f : 1.0f / total;
      auto* o = static_cast<std::uint16_t*>(p.o) + at.request * p.o_batch + place.token * p.o_row +
                place.head * p.o_head;
      *reinterpret_cast<std::uint32_t*>(o + rank * columns + column) =
          Element::pack(sum.x * inverse, sum.y * inverse);
      if (p.lse != nullptr && rank == 0 && column == 0) {
        const float lse = total == 0.0f ? -INFINITY : finite_base(top) + ptx::log2_approx(total);
        p.lse[at.request * p.lse_batch + place.token * p.lse_row + place.head * p.lse_head] =
            lse * p.lse_scale;
      }
    }
  }
};

template <class Element, int kDim, int kStages>
union DecodeUnitStorage {
  typename DecodeUnit<Element, kDim, kStages>::SharedStorage unit;
  typename Decode<Element, kDim, 8, kStages>::SharedStorage workers[2];
};

template <class Element, int kDim, int kStages>
__global__ void __launch_bounds__(256, 1)
    decode_unit_kernel(const __grid_constant__ DecodeParams p) {
#if TILEGATE_HAS_SM90
  extern __shared__ __align__(1024) unsigned char raw[];
  auto& shared = *reinterpret_cast<DecodeUnitStorage<Element, kDim, kStages>*>(raw);
  ptx::wait_for_predecessor();
  ptx::launch_dependents();
  if (units_balanced(p)) {
    DecodeUnit<Element, kDim, kStages>::run(p, shared.unit);
    return;
  }
  const int half = static_cast<int>(threadIdx.x) / kWorkerThreads;
  Decode<Element, kDim, 8, kStages>::run(p, shared.workers[half],
                                         2 * static_cast<int>(blockIdx.x) + half);
#else
  __trap();
#endif
}

}  // namespace tilegate::kernel
