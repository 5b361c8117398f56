// SPDX-License-Identifier: Apache-2.0
// Launches of the decode kernels, and what a built configuration is.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernel/attention/decode/params.h"
#include "tilegate/tensor.h"

namespace tilegate {

struct DecodeGrid {
  int blocks = 1;          // of decode
  int combine_blocks = 0;  // 0: decode merges what it splits
  int combine_rows = 1;    // blocks that share the rows of a unit
  bool overlap = false;    // the device has programmatic dependent launch
};

using DecodeLaunch = cudaError_t (*)(const kernel::DecodeParams&, const DecodeGrid&, cudaStream_t);

// Enqueues decode and, when asked for, combine.
template <DType kType, int kDim, int kRows, int kStages>
cudaError_t launch_decode(const kernel::DecodeParams& params, const DecodeGrid& grid,
                          cudaStream_t stream);

// Enqueues the kernel whose clusters of params.unit_blocks blocks may take units of their own.
template <DType kType, int kDim, int kStages>
cudaError_t launch_decode_unit(const kernel::DecodeParams& params, const DecodeGrid& grid,
                               cudaStream_t stream);

struct DecodeConfig {
  DType dtype;
  int head_dim;
  int rows;    // query rows multiplied together: 8, or tiles of 16
  int stages;  // of 64 keys, K and V
  DecodeLaunch launch;
  DecodeLaunch launch_unit;  // null: not built

  // Shared memory of a worker: the stages, the queries of units to come (one m-tile) or of this
  // one, page entries, statistics and the schedule.
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
  // Of a block of the unit kernel, which is two workers.
  constexpr int unit_shared_bytes() const { return 2 * shared_bytes(); }
};

}  // namespace tilegate
