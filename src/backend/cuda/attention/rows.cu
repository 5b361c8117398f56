// SPDX-License-Identifier: Apache-2.0
// The append and merge kernels for every width.
#include <algorithm>

#include "backend/cuda/attention/rows_launch.h"
#include "kernel/attention/append.cuh"
#include "kernel/attention/merge.cuh"

namespace tilegate {
namespace {

constexpr int kAppendTogether = 4;  // chunks a thread of append_kernel has in flight

// Blocks by x for rows, by y for the items of rows that are more than a block's threads take.
dim3 grid_of(std::int64_t rows, int rows_per_block, std::int64_t items_per_row,
             int items_per_thread) {
  constexpr std::int64_t kLargestY = 65535;
  const std::int64_t items = items_per_row * rows_per_block;
  const std::int64_t block_items = static_cast<std::int64_t>(kRowThreads) * items_per_thread;
  const std::int64_t shares = (items + block_items - 1) / block_items;
  return dim3(static_cast<unsigned>((rows + rows_per_block - 1) / rows_per_block),
              static_cast<unsigned>(std::clamp<std::int64_t>(shares, 1, kLargestY)));
}

template <class Element, int kVector>
void merge_vectors(const kernel::MergeParams& params, cudaStream_t stream) {
  const std::int64_t items = static_cast<std::int64_t>(params.heads) * params.chunks;
  const dim3 grid = grid_of(params.rows, params.rows_per_block, items, 1);
  if (params.parts <= 2) {
    kernel::merge_kernel<Element, kVector, 2><<<grid, kRowThreads, 0, stream>>>(params);
  } else if (params.parts <= 4) {
    kernel::merge_kernel<Element, kVector, 4><<<grid, kRowThreads, 0, stream>>>(params);
  } else {
    kernel::merge_kernel<Element, kVector, 8><<<grid, kRowThreads, 0, stream>>>(params);
  }
}

template <class Element>
void merge_rows(const kernel::MergeParams& params, MergeWidth width, cudaStream_t stream) {
  if (width == MergeWidth::kWord) {
    merge_vectors<Element, tile::kWordElements<Element>>(params, stream);
  } else {
    merge_vectors<Element, 1>(params, stream);
  }
}

}  // namespace

cudaError_t launch_append(const kernel::AppendParams& params, std::int64_t word_bytes,
                          cudaStream_t stream) {
  const int chunks = std::max(params.sides[0].chunks, params.sides[1].chunks);
  dim3 grid = grid_of(params.tokens, params.rows_per_block,
                      static_cast<std::int64_t>(params.heads) * chunks, kAppendTogether);
  grid.z = 2;
  if (word_bytes == 16) {
    kernel::append_kernel<uint4, kAppendTogether><<<grid, kRowThreads, 0, stream>>>(params);
  } else if (word_bytes == 4) {
    kernel::append_kernel<unsigned, kAppendTogether><<<grid, kRowThreads, 0, stream>>>(params);
  } else {
    kernel::append_kernel<unsigned short, kAppendTogether>
        <<<grid, kRowThreads, 0, stream>>>(params);
  }
  return cudaGetLastError();
}

cudaError_t launch_merge(const kernel::MergeParams& params, DType dtype, MergeWidth width,
                         cudaStream_t stream) {
  switch (dtype) {
    case DType::kFloat16:
      merge_rows<tile::Fp16>(params, width, stream);
      break;
    case DType::kBFloat16:
      merge_rows<tile::Bf16>(params, width, stream);
      break;
    default:
      merge_rows<tile::Fp32>(params, width, stream);
      break;
  }
  return cudaGetLastError();
}

}  // namespace tilegate
