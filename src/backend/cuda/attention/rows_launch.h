// SPDX-License-Identifier: Apache-2.0
// Launches of the append and merge kernels.
#pragma once

#include <cuda_runtime_api.h>

#include "kernel/attention/append_params.h"
#include "kernel/attention/merge_params.h"
#include "tilegate/tensor.h"

namespace tilegate {

inline constexpr int kRowThreads = 256;

// Copies in units of `word_bytes`: 16, or the size of an element (2 or 4).
cudaError_t launch_append(const kernel::AppendParams& params, std::int64_t word_bytes,
                          cudaStream_t stream);

enum class MergeWidth { kWord, kElement };  // 16 bytes a thread, or one element
cudaError_t launch_merge(const kernel::MergeParams& params, DType dtype, MergeWidth width,
                         cudaStream_t stream);

}  // namespace tilegate
