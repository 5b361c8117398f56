// SPDX-License-Identifier: Apache-2.0
// The launch of the decode kernel whose clusters may take units of their own (sm_90 and newer).
#pragma once

#include "backend/cuda/attention/decode/launch.cuh"
#include "kernel/attention/decode/unit.cuh"

namespace tilegate {

template <DType kType, int kDim, int kStages>
cudaError_t launch_decode_unit(const kernel::DecodeParams& params, const DecodeGrid& grid,
                               cudaStream_t stream) {
  using Element = typename ElementOf<kType>::type;
  constexpr int kShared = sizeof(kernel::DecodeUnitStorage<Element, kDim, kStages>);
  static_assert(kShared <=
                DecodeConfig{kType, kDim, 8, kStages, nullptr, nullptr}.unit_shared_bytes());
  KernelShape shape;
  shape.blocks = dim3(static_cast<unsigned>(grid.blocks));
  shape.threads = kernel::DecodeUnit<Element, kDim, kStages>::kThreads;
  shape.shared_bytes = kShared;
  shape.cluster = params.unit_blocks;
  shape.overlap = grid.overlap;
  return launch_overlapped(kernel::decode_unit_kernel<Element, kDim, kStages>, shape, params,
                           stream);
}

}  // namespace tilegate
