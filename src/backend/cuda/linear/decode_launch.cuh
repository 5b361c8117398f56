// SPDX-License-Identifier: Apache-2.0
// Launch of the delta-rule decode kernels. Nothing is allocated or awaited: a launch may be
// captured. Where the device can, a launch may begin while its predecessor ends: the kernel itself
// waits for it before it reads anything.
#pragma once

#include "backend/cuda/linear/decode_launch.h"
#include "kernel/linear/decode.cuh"

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

// Blocks of kDeltaMaxThreads an SM that the registers leave room for: as many as need no spill.
constexpr int blocks_per_sm(StateForm form, int dim_k) {
  if (form == StateForm::kFp16 && dim_k == 256) return 3;
  const bool small = form == StateForm::kBf16 || form == StateForm::kFp16;
  return small && dim_k < 256 ? 5 : 4;
}

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

template <StateForm kForm, int kDimK>
cudaError_t launch_delta_decode(const kernel::DeltaDecodeParams& params, const DeltaGrid& grid,
                                cudaStream_t stream) {
  using State = typename StateOf<kForm>::type;
  constexpr int kPasses = passes_of(kForm);
  constexpr int kMinBlocks = blocks_per_sm(kForm, kDimK);
  using Kernel = kernel::DeltaDecode<State, kDimK, kPasses>;
  constexpr int kStaticLimit = 48 * 1024;  // shared memory without the attribute
  const auto decode = kernel::delta_decode_kernel<State, kDimK, kPasses, kMinBlocks>;
  const int rows = grid.threads / 32 * Kernel::kTileRows * params.tiles;
  DeltaGrid with_shared = grid;
  with_shared.shared_bytes = Kernel::shared_bytes(params.stage_steps, rows);
  if (with_shared.shared_bytes > kStaticLimit) {
    const cudaError_t error = cudaFuncSetAttribute(
        decode, cudaFuncAttributeMaxDynamicSharedMemorySize, with_shared.shared_bytes);
    if (error != cudaSuccess) return error;
  }
  return launch_overlapped(decode, params, with_shared, stream);
}

}  // namespace tilegate
