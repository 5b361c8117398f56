// SPDX-License-Identifier: Apache-2.0
// The decode kernels that are built: one table for planner and launcher. A row is one
// instantiation, made in decode_<dtype>.cu; a row without it does not link.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernel/attention/decode_params.h"
#include "tilegate/tensor.h"

namespace tilegate {

struct DecodeGrid {
  int combine_blocks = 0;  // 0: nothing to combine
  int combine_rows = 1;    // blocks that share the rows of a unit
  bool overlap = false;    // the device has programmatic dependent launch
};

// Enqueues decode and, when asked for, combine.
template <DType kType, int kDim, int kRows, int kStages>
cudaError_t launch_decode(const kernel::DecodeParams& params, const DecodeGrid& grid,
                          cudaStream_t stream);

struct DecodeConfig {
  DType dtype;
  int head_dim;
  int rows;    // query rows multiplied together: 8, or tiles of 16
  int stages;  // of 64 keys, K and V
  cudaError_t (*launch)(const kernel::DecodeParams&, const DecodeGrid&, cudaStream_t);

  // Shared memory of a block: the stages, the queries of units to come (one m-tile) or of this one,
  // page entries, statistics and the schedule.
  constexpr int shared_bytes() const {
    constexpr int kSchedule = 256;
    constexpr int kAlignment = 1024;
    const int stage = kernel::kDecodeTileKeys * head_dim * 2 * 2;
    const int stored_rows = rows > kernel::kDecodeTileRows ? rows : kernel::kDecodeTileRows;
    const int slots = rows > kernel::kDecodeTileRows ? 1 : stages;
    const int queries = stored_rows * head_dim * 2;
    const int entries = kernel::kDecodeWarps * (stages + 1) * kernel::kDecodeEntryBytes;
    const int statistics = kernel::kDecodeWarps * stored_rows * 2 * 4;
    const int bytes = stages * stage + slots * queries + entries + statistics + kSchedule;
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
};

}  // namespace tilegate
