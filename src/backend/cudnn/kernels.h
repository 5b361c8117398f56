// SPDX-License-Identifier: Apache-2.0
// The small kernels around a cuDNN graph, as the launcher sees them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "backend/cudnn/graph/spec.h"

namespace tilegate::cudnn {

// A 1-d (or, with row_stride, 2-d) tensor of int32 or int64; absent when data is null.
struct IndexArray {
  const void* data = nullptr;
  std::int64_t stride = 0;
  std::int64_t row_stride = 0;
  bool wide = false;  // int64
};

// Where the lengths of the requests come from.
struct LengthSource {
  std::int64_t batch = 0;
  std::int64_t rows_each = -1;  // >= 0: all requests; else qo_indptr
  std::int64_t keys_each = -1;  // >= 0: all requests; else kv_lens, pages, or kv_indptr in keys
  std::int64_t page_size = 0;
  // A request with more rows or keys is not computed: its outputs become NaN.
  std::int64_t max_rows = 0;
  std::int64_t max_keys = 0;
  IndexArray qo_indptr;  // [batch + 1]
  IndexArray kv_indptr;  // [batch + 1]
  IndexArray kv_last_page_len;
  IndexArray kv_lens;
};

// Which pages hold the keys of a request: one of the two.
struct PageSource {
  IndexArray block_tables;  // [batch, pages of a request or more]
  IndexArray kv_indices;    // CSR, by kv_indptr
};

// Everything a graph reads besides the caller's tensors. Null outputs are not written.
struct PrepareParams {
  LengthSource lengths;
  PageSource pages;
  std::int32_t* q_lens = nullptr;     // [batch]
  std::int32_t* kv_lens = nullptr;    // [batch]
  std::int64_t* q_offsets = nullptr;  // [batch + 1], in elements of its tensor, as the next four
  std::int64_t* o_offsets = nullptr;
  std::int64_t* lse_offsets = nullptr;
  std::int64_t* k_offsets = nullptr;
  std::int64_t* v_offsets = nullptr;
  Strides q, o, lse;                   // of the caller's tensors
  std::int64_t k_row = 0, v_row = 0;   // elements a key
  std::int32_t* page_table = nullptr;  // [batch, table_width]
  std::int64_t table_width = 0;
  const float* sinks_in = nullptr;
  std::int64_t sink_stride = 0;
  float* sinks_out = nullptr;  // [heads_q]
  std::int64_t heads_q = 0;
};

// A paged pool and its packed copy [rows, heads, dim], in 16-bit floats.
struct CopyTensor {
  const std::uint16_t* from = nullptr;
  std::uint16_t* to = nullptr;                // 16-byte aligned, as all rows of both
  std::int64_t page = 0, slot = 0, head = 0;  // strides of the pool in elements
  std::int64_t dim = 0;
};

struct CopyParams {
  LengthSource lengths;
  PageSource pages;
  std::int64_t heads = 0;
  CopyTensor tensors[2];  // k and v
};

// What cuDNN leaves to us in its outputs: rows without keys, and the base of lse.
struct FinishParams {
  LengthSource lengths;
  std::int64_t total_rows = 0;
  std::int64_t heads = 0;
  std::int64_t dim_v = 0;
  std::uint16_t* o = nullptr;  // 16-bit floats
  Strides o_strides;
  float* lse = nullptr;  // may be null
  Strides lse_strides;
  float lse_scale = 1.0f;  // of cuDNN's natural logarithm, and of a sink alone
  const float* sinks = nullptr;
  std::int64_t sink_stride = 0;
  std::int64_t left = -1;   // keys before the diagonal; -1: all
  std::int64_t right = -1;  // keys after it; -1: all
};

cudaError_t launch_prepare(const PrepareParams& params, cudaStream_t stream);
cudaError_t launch_copy(const CopyParams& params, cudaStream_t stream);
cudaError_t launch_finish(const FinishParams& params, cudaStream_t stream);

}  // namespace tilegate::cudnn
