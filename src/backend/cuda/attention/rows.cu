// SPDX-License-Identifier: Apache-2.0
// The append and merge kernels for every width.
#include "backend/cuda/attention/rows_launch.h"
#include "kernel/attention/append.cuh"
#include "kernel/attention/merge.cuh"

namespace tilegate {
namespace {

unsigned blocks_of(std::int64_t rows, int rows_per_block) {
  return static_cast<unsigned>((rows + rows_per_block - 1) / rows_per_block);
}

template <class Element>
void merge_rows(const kernel::MergeParams& params, MergeWidth width, cudaStream_t stream) {
  const unsigned blocks = blocks_of(params.rows, params.rows_per_block);
  if (width == MergeWidth::kWord) {
    kernel::merge_kernel<Element, tile::kWordElements<Element>>
        <<<blocks, kRowThreads, 0, stream>>>(params);
  } else {
    kernel::merge_kernel<Element, 1><<<blocks, kRowThreads, 0, stream>>>(params);
  }
}

}  // namespace

cudaError_t launch_append(const kernel::AppendParams& params, std::int64_t word_bytes,
                          cudaStream_t stream) {
  const dim3 grid(blocks_of(params.tokens, params.rows_per_block), 2);
  if (word_bytes == 16) {
    kernel::append_kernel<uint4><<<grid, kRowThreads, 0, stream>>>(params);
  } else if (word_bytes == 4) {
    kernel::append_kernel<unsigned><<<grid, kRowThreads, 0, stream>>>(params);
  } else {
    kernel::append_kernel<unsigned short><<<grid, kRowThreads, 0, stream>>>(params);
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
