// SPDX-License-Identifier: Apache-2.0
// CUDA runtime errors of this backend as Status values.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

#include "core/message.h"

namespace tilegate::cudnn {

// Ok, or "cuda: <what> failed: <name>: <description>". Clears a non-sticky error of the thread.
inline Status cuda_status(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) return {};
  (void)cudaGetLastError();
  return Status(StatusCode::kCuda, fmt::format("{} failed: {}: {}", what, cudaGetErrorName(error),
                                               cudaGetErrorString(error)));
}

}  // namespace tilegate::cudnn
