// SPDX-License-Identifier: Apache-2.0
// Launch of the commit kernel.
#include "backend/cuda/linear/decode_launch.cuh"
#include "kernel/linear/commit.cuh"

namespace tilegate {

cudaError_t launch_commit_kernel(const kernel::CommitParams& params, const DeltaGrid& grid,
                                 cudaStream_t stream) {
  return launch_overlapped(&kernel::commit_kernel, params, grid, stream);
}

}  // namespace tilegate
