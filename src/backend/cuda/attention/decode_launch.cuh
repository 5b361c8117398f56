// SPDX-License-Identifier: Apache-2.0
// Launches of decode and its combine. Nothing is allocated or awaited: a launch may be captured.
#pragma once

#include "backend/cuda/attention/decode_launch.h"
#include "kernel/attention/decode.cuh"
#include "kernel/attention/decode_combine.cuh"

namespace tilegate {

template <DType kType>
struct ElementOf;
template <>
struct ElementOf<DType::kBFloat16> {
  using type = tile::Bf16;
};
template <>
struct ElementOf<DType::kFloat16> {
  using type = tile::Fp16;
};

// Launches behind the stream's last kernel, before its end where `overlap` allows: the kernel then
// begins with wait_for_predecessor. All kernels ask for the same split of L1 and shared memory: an
// SM changes it only when idle.
template <class Kernel>
cudaError_t launch_overlapped(Kernel kernel, dim3 blocks, int threads, int shared_bytes,
                              const kernel::DecodeParams& params, bool overlap,
                              cudaStream_t stream) {
  cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                           cudaSharedmemCarveoutMaxShared);
  if (error != cudaSuccess) return error;
  error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  if (error != cudaSuccess) return error;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(shared_bytes);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = overlap ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, params);
}

template <DType kType, int kDim, int kRows, int kStages>
cudaError_t launch_decode(const kernel::DecodeParams& params, const DecodeGrid& grid,
                          cudaStream_t stream) {
  using Element = typename ElementOf<kType>::type;
  using Kernel = kernel::Decode<Element, kDim, kRows, kStages>;
  constexpr int kShared = sizeof(typename Kernel::SharedStorage);
  static_assert(kShared <= DecodeConfig{kType, kDim, kRows, kStages, nullptr}.shared_bytes());
  const cudaError_t error =
      launch_overlapped(kernel::decode_kernel<Element, kDim, kRows, kStages>,
                        dim3(static_cast<unsigned>(params.workers)), Kernel::kThreads, kShared,
                        params, grid.overlap, stream);
  if (error != cudaSuccess || grid.combine_blocks == 0) return error;
  return launch_overlapped(
      kernel::decode_combine_kernel<Element, kDim>,
      dim3(static_cast<unsigned>(grid.combine_blocks), static_cast<unsigned>(grid.combine_rows)),
      kernel::DecodeCombine<Element, kDim>::kThreads, 0, params, grid.overlap, stream);
}

}  // namespace tilegate
