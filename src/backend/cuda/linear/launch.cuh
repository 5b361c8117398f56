// SPDX-License-Identifier: Apache-2.0
// What launches of the delta-rule kernels share. Nothing is allocated or awaited: a launch may be
// captured. Where the device can, a launch may begin while its predecessor ends: the kernel itself
// waits for it before it reads anything.
#pragma once

#include "backend/cuda/linear/decode_launch.h"
#include "kernel/linear/state_rows.cuh"
#include "kernel/tile/element.cuh"

namespace tilegate {

template <StateForm kForm>
struct StateOf {
  using type = kernel::StateTyped;
};
template <>
struct StateOf<StateForm::kFp32> {
  using type = kernel::StateFp32;
};
template <>
struct StateOf<StateForm::kBf16> {
  using type = kernel::State16<tile::Bf16>;
};
template <>
struct StateOf<StateForm::kFp16> {
  using type = kernel::State16<tile::Fp16>;
};

template <class Params>
cudaError_t launch_overlapped(void (*kernel)(Params), const Params& params, const DeltaGrid& grid,
                              cudaStream_t stream) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(grid.parts), static_cast<unsigned>(grid.heads),
                        static_cast<unsigned>(grid.seqs));
  config.blockDim = dim3(static_cast<unsigned>(grid.threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(grid.shared_bytes);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = grid.overlap ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, params);
}

}  // namespace tilegate
