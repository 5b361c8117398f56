// SPDX-License-Identifier: Apache-2.0
// Launches of the delta-rule decode kernels. A row of kDeltaKernels (tiles.h) is one instantiation,
// made in decode_<form>.cu; a row without it does not link.
#pragma once

#include <cuda_runtime_api.h>

#include "kernel/linear/decode_params.h"

namespace tilegate {

// How a kernel holds states: one type for all of them and 16-byte aligned rows, or typed at run
// time (mixed types, odd strides, checkpoints).
enum class StateForm { kFp32, kBf16, kFp16, kTyped };

struct DeltaGrid {
  int parts = 1;  // blocks that share the rows of a head
  int heads = 1;
  int seqs = 1;  // fewer than there are: blocks stride over them
  int threads = 128;
  int shared_bytes = 0;
  bool overlap = false;  // the device has programmatic dependent launch
};

// Rows that a lane holds. Typed states are taken one by one: their code is long, their use rare.
inline constexpr int kDeltaPasses = 4;
constexpr int passes_of(StateForm form) { return form == StateForm::kTyped ? 1 : kDeltaPasses; }

template <StateForm kForm, int kDimK>
cudaError_t launch_delta_decode(const kernel::DeltaDecodeParams& params, const DeltaGrid& grid,
                                cudaStream_t stream);

cudaError_t launch_commit_kernel(const kernel::CommitParams& params, const DeltaGrid& grid,
                                 cudaStream_t stream);

struct DeltaKernel {
  StateForm form;
  int dim_k;
  cudaError_t (*launch)(const kernel::DeltaDecodeParams&, const DeltaGrid&, cudaStream_t);

  // Shared memory of a step, without its values.
  constexpr int step_bytes() const { return 4 * dim_k * 4; }
  constexpr int passes() const { return passes_of(form); }
  // Rows that a warp holds.
  constexpr int tile_rows() const { return 32 * kernel::kLaneColumns / dim_k * passes(); }
};

template <StateForm kForm, int kDimK>
inline constexpr DeltaKernel kDeltaKernel = {kForm, kDimK, &launch_delta_decode<kForm, kDimK>};

}  // namespace tilegate
