// SPDX-License-Identifier: Apache-2.0
// Work of kernels that treat rows of [rows, heads, dim] tensors chunk by chunk: block b owns the
// rows [b * rows_per_block, ..), its threads take their (row, head, chunk) items in turn. Only the
// row is 64-bit, so the divisions are short ones.
#pragma once

#include "kernel/ptx/arch.cuh"

namespace tilegate::pipe {

struct RowItems {
  std::int64_t rows = 0;
  int rows_per_block = 1;
  int heads = 1;
  int chunks = 1;  // a row of one head
};

// Calls body(row, head, chunk).
template <class Body>
__device__ __forceinline__ void for_each_item(const RowItems& items, Body body) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * items.rows_per_block;
  const int per_row = items.heads * items.chunks;
  const std::int64_t left = items.rows - first;
  const int rows = left < items.rows_per_block ? static_cast<int>(left) : items.rows_per_block;
  for (int i = static_cast<int>(threadIdx.x); i < rows * per_row;
       i += static_cast<int>(blockDim.x)) {
    const int row = i / per_row;
    const int rest = i - row * per_row;
    const int head = rest / items.chunks;
    body(first + row, head, rest - head * items.chunks);
  }
}

}  // namespace tilegate::pipe
