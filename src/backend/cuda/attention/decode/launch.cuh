// SPDX-License-Identifier: Apache-2.0
// Launches of decode and its combine. Nothing is allocated or awaited: a launch may be captured.
#pragma once

#include "backend/cuda/attention/decode/launch.h"
#include "kernel/attention/decode/combine.cuh"
#include "kernel/attention/decode/decode.cuh"

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

struct KernelShape {
  dim3 blocks;
  int threads = 0;
  int shared_bytes = 0;
  int cluster = 1;  // blocks of a cluster
  bool overlap = false;
};

// Launches behind the stream's last kernel, before its end where `overlap` allows: the kernel then
// begins with wait_for_predecessor. All kernels ask for the same split of L1 and shared memory: an
// SM changes it only when idle.
template <class Kernel>
cudaError_t launch_overlapped(Kernel kernel, const KernelShape& shape,
                              const kernel::DecodeParams& params, cudaStream_t stream) {
  cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                           cudaSharedmemCarveoutMaxShared);
  if (error != cudaSuccess) return error;
  error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shape.shared_bytes);
  if (error != cudaSuccess) return error;
  cudaLaunchAttribute attributes[2]{};
  cudaLaunchConfig_t config{};
  config.gridDim = shape.blocks;
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(shape.shared_bytes);
  config.stream = stream;
  config.attrs = attributes;
  if (shape.overlap) {
    cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
  }
  if (shape.cluster > 1) {
    cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = static_cast<unsigned>(shape.cluster);
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  }
  return cudaLaunchKernelEx(&config, kernel, params);
}

template <DType kType, int kDim, int kRows, int kStages>
cudaError_t launch_decode(const kernel::DecodeParams& params, const DecodeGrid& grid,
                          cudaStream_t stream) {
  using Element = typename ElementOf<kType>::type;
  using Kernel = kernel::Decode<Element, kDim, kRows, kStages>;
  constexpr int kShared = sizeof(typename Kernel::SharedStorage);
  static_assert(kShared <=
                DecodeConfig{kType, kDim, kRows, kStages, nullptr, nullptr}.shared_bytes());
  KernelShape shape;
  shape.blocks = dim3(static_cast<unsigned>(grid.blocks));
  shape.threads = Kernel::kThreads;
  shape.shared_bytes = kShared;
  shape.overlap = grid.overlap;
  const cudaError_t error = launch_overlapped(kernel::decode_kernel<Element, kDim, kRows, kStages>,
                                              shape, params, stream);
  if (error != cudaSuccess || grid.combine_blocks == 0) return error;
  shape.blocks =
      dim3(static_cast<unsigned>(grid.combine_blocks), static_cast<unsigned>(grid.combine_rows));
  shape.threads = kernel::DecodeCombine<Element, kDim>::kThreads;
  shape.shared_bytes = 0;
  return launch_overlapped(kernel::decode_combine_kernel<Element, kDim>, shape, params, stream);
}

}  // namespace tilegate
