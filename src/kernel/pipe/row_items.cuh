// SPDX-License-Identifier: Apache-2.0
// Work of kernels that treat rows of [rows, heads, dim] tensors chunk by chunk: the blocks of one x
// own the rows [x * rows_per_block, ..) and share them by y; their threads take the (row, head,
// chunk) items in turn. Only the row is 64-bit, so the divisions are short ones.
#pragma once

#include "kernel/ptx/arch.cuh"

namespace tilegate::pipe {

struct RowItems {
  std::int64_t rows = 0;
  int rows_per_block = 1;
  int heads = 1;
  int chunks = 1;  // a row of one head
};

struct RowItem {
  std::int64_t row = 0;
  int head = 0;
  int chunk = 0;
  bool valid = false;  // false: stands for none, and is the block's last item again
};

// Calls body(RowItem (&)[kTogether]) for items whose loads may be in flight at once, as often in
// every thread of the block.
template <int kTogether, class Body>
__device__ __forceinline__ void for_each_batch(const RowItems& items, Body body) {
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.x) * items.rows_per_block;
  const int per_row = items.heads * items.chunks;
  const std::int64_t left = items.rows - first_row;
  const int rows = left < items.rows_per_block ? static_cast<int>(left) : items.rows_per_block;
  const int total = rows * per_row;
  const int step = static_cast<int>(blockDim.x * gridDim.y);
  for (int start = static_cast<int>(blockIdx.y * blockDim.x); start < total;
       start += kTogether * step) {
    RowItem batch[kTogether];
#pragma unroll
    for (int b = 0; b < kTogether; ++b) {
      const int wanted = start + static_cast<int>(threadIdx.x) + b * step;
      const int i = wanted < total ? wanted : total - 1;
      const int row = i / per_row;
      const int rest = i - row * per_row;
      batch[b].row = first_row + row;
      batch[b].head = rest / items.chunks;
      batch[b].chunk = rest - batch[b].head * items.chunks;
      batch[b].valid = wanted < total;
    }
    body(batch);
  }
}

}  // namespace tilegate::pipe
