// SPDX-License-Identifier: Apache-2.0
// Advances state slots by the accepted tokens of a replay record: S <- S * decay_t + d_t k_t^T. A
// thread holds eight columns of kPasses rows; K / 8 neighbouring threads share a row. Bound by the
// traffic of the states; element types, strides and alignment are asked at run time.
#pragma once

#include "kernel/linear/decode_steps.cuh"
#include "kernel/linear/state_rows.cuh"
#include "kernel/ptx/grid.cuh"

namespace tilegate::kernel {

// Eight columns of some rows of one head, `stride` rows apart.
struct CommitTile {
  std::int64_t seq = 0;
  std::int64_t slot = 0;
  int head = 0;
  int row0 = 0;
  int stride = 1;
  int column = 0;
};

using CommitRows = float[kCommitPasses][kLaneColumns];

// S <- S * decay of token t.
__device__ __forceinline__ void commit_decay(const CommitParams& p, const CommitTile& w,
                                             std::int64_t t, CommitRows& s) {
  const RecordParams& r = p.record;
  const float* log = r.decay + w.seq * r.decay_seq + t * r.decay_row + w.head * r.decay_head;
  float alpha[kLaneColumns];
#pragma unroll
  for (int j = 0; j < kLaneColumns; ++j) {
    alpha[j] =
        p.per_channel != 0 || j == 0 ? expf(log[p.per_channel != 0 ? w.column + j : 0]) : alpha[0];
  }
#pragma unroll
  for (int i = 0; i < kCommitPasses; ++i)
#pragma unroll
    for (int j = 0; j < kLaneColumns; ++j) s[i][j] = alpha[j] == 0.0f ? 0.0f : s[i][j] * alpha[j];
}

// S <- S + d k^T of row `row` of the record.
__device__ __forceinline__ void commit_update(const CommitParams& p, const CommitTile& w,
                                              std::int64_t row, CommitRows& s) {
  const RecordParams& r = p.record;
  const float* k = r.k + w.seq * r.k_seq + row * r.k_row +
                   std::int64_t{head_of(p.key_heads, w.head)} * r.k_head + w.column;
  const float* d = r.d + w.seq * r.d_seq + row * r.d_row + w.head * r.d_head;
  float key[kLaneColumns];
#pragma unroll
  for (int j = 0; j < kLaneColumns; ++j) key[j] = k[j];
#pragma unroll
  for (int i = 0; i < kCommitPasses; ++i) {
    const int v = w.row0 + i * w.stride;
    const float row_d = v < p.dim_v ? d[v] : 0.0f;
#pragma unroll
    for (int j = 0; j < kLaneColumns; ++j) s[i][j] = fmaf(row_d, key[j], s[i][j]);
  }
}

__device__ __forceinline__ void commit_tile(const CommitParams& p, const CommitTile& w,
                                            std::int64_t accepted) {
  const StateRows& state = p.state;
  const int element = tile::bytes_of(state.kind);
  const bool aligned = state.aligned != 0;
  char* first = row_pointer(state, w.slot, w.head, w.row0) + w.column * element;
  const std::int64_t step = w.stride * state.row;
  CommitRows s = {};
#pragma unroll
  for (int i = 0; i < kCommitPasses; ++i) {
    const int v = w.row0 + i * w.stride;
    if (v >= p.dim_v) continue;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const char* at = first + i * step + 4 * half * element;
      tile::widen4(tile::load_raw4(at, state.kind, aligned), state.kind, s[i] + 4 * half);
    }
  }
  for (std::int64_t t = 0; t < accepted; ++t) {
    commit_decay(p, w, t, s);
    for (std::int64_t j = 0; j < p.householder; ++j) commit_update(p, w, t * p.householder + j, s);
  }
#pragma unroll
  for (int i = 0; i < kCommitPasses; ++i) {
    const int v = w.row0 + i * w.stride;
    if (v >= p.dim_v) continue;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      char* at = first + i * step + 4 * half * element;
      tile::store_raw4(tile::narrow4(s[i] + 4 * half, state.kind), at, state.kind, aligned);
    }
  }
}

// Rows of a block: kCommitPasses times the rows that its threads hold at once.
__global__ void __launch_bounds__(kCommitThreads)
    commit_kernel(const __grid_constant__ CommitParams p) {
  ptx::launch_dependents();
  ptx::wait_for_predecessor();
  const int threads_per_row = p.dim_k / kLaneColumns;
  const int rows_at_once = kCommitThreads / threads_per_row;
  const int thread = static_cast<int>(threadIdx.x);
  if (thread >= rows_at_once * threads_per_row) return;
  CommitTile w;
  w.head = static_cast<int>(blockIdx.y);
  w.stride = rows_at_once;
  w.row0 = static_cast<int>(blockIdx.x) * rows_at_once * kCommitPasses + thread / threads_per_row;
  w.column = thread % threads_per_row * kLaneColumns;
#pragma unroll 1
  for (int seq = static_cast<int>(blockIdx.z); seq < p.num_seqs; seq += gridDim.z) {
    w.seq = seq;
    w.slot = tile::load_index(p.index, seq);
    const std::int64_t accepted = tile::load_index(p.accepted, seq);
    if (w.slot >= 0 && accepted > 0) commit_tile(p, w, accepted);
  }
}

}  // namespace tilegate::kernel
