// SPDX-License-Identifier: Apache-2.0
// Launch of the delta-rule decode kernels: the registers and the shared memory that an
// instantiation takes. A launch may be captured and may begin while its predecessor ends
// (launch.cuh).
#pragma once

#include "backend/cuda/linear/launch.cuh"
#include "kernel/linear/decode.cuh"

namespace tilegate {

// Blocks of kDeltaMaxThreads an SM that the registers leave room for: as many as need no spill.
constexpr int blocks_per_sm(StateForm form, int dim_k) {
  if (form == StateForm::kFp16 && dim_k == 256) return 3;
  const bool small = form == StateForm::kBf16 || form == StateForm::kFp16;
  return small && dim_k < 256 ? 5 : 4;
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
