// SPDX-License-Identifier: Apache-2.0
// The decode kernels that are built: one table for planner and launcher. A row is one or two
// instantiations, made in <dtype>.cu and unit_<dtype>.cu; a row without them does not link.
#pragma once

#include "backend/cuda/attention/decode/launch.h"

namespace tilegate {

template <DType kType, int kDim, int kRows, int kStages>
inline constexpr DecodeConfig kDecodeSplit{
    kType, kDim, kRows, kStages, &launch_decode<kType, kDim, kRows, kStages>, nullptr};

template <DType kType, int kDim, int kStages>
inline constexpr DecodeConfig kDecodeUnit{kType,
                                          kDim,
                                          8,
                                          kStages,
                                          &launch_decode<kType, kDim, 8, kStages>,
                                          &launch_decode_unit<kType, kDim, kStages>};

// Stages: the two blocks (dim 256: one) of an SM of 228 KB have about 200 KB of loads in flight,
// and leave room for a block of combine beside them.
inline constexpr DecodeConfig kDecodeConfigs[] = {
    kDecodeUnit<DType::kBFloat16, 64, 5>,       kDecodeSplit<DType::kBFloat16, 64, 16, 5>,
    kDecodeSplit<DType::kBFloat16, 64, 32, 6>,  kDecodeUnit<DType::kBFloat16, 128, 3>,
    kDecodeSplit<DType::kBFloat16, 128, 16, 3>, kDecodeSplit<DType::kBFloat16, 128, 32, 3>,
    kDecodeSplit<DType::kBFloat16, 256, 8, 3>,  kDecodeSplit<DType::kBFloat16, 256, 16, 3>,
    kDecodeUnit<DType::kFloat16, 64, 5>,        kDecodeSplit<DType::kFloat16, 64, 16, 5>,
    kDecodeSplit<DType::kFloat16, 64, 32, 6>,   kDecodeUnit<DType::kFloat16, 128, 3>,
    kDecodeSplit<DType::kFloat16, 128, 16, 3>,  kDecodeSplit<DType::kFloat16, 128, 32, 3>,
    kDecodeSplit<DType::kFloat16, 256, 8, 3>,   kDecodeSplit<DType::kFloat16, 256, 16, 3>,
};

}  // namespace tilegate
