// SPDX-License-Identifier: Apache-2.0
// The decode kernels that are built: one table for planner and launcher. A row is one
// instantiation, made in decode_<dtype>.cu; a row without it does not link.
#pragma once

#include "backend/cuda/attention/decode_launch.h"

namespace tilegate {

// Stages: the two blocks (dim 256: one) of an SM of 228 KB have about 200 KB of loads in flight,
// and leave room for a block of combine beside them.
inline constexpr DecodeConfig kDecodeConfigs[] = {
    {DType::kBFloat16, 64, 8, 5, &launch_decode<DType::kBFloat16, 64, 8, 5>},
    {DType::kBFloat16, 64, 16, 5, &launch_decode<DType::kBFloat16, 64, 16, 5>},
    {DType::kBFloat16, 64, 32, 6, &launch_decode<DType::kBFloat16, 64, 32, 6>},
    {DType::kBFloat16, 128, 8, 3, &launch_decode<DType::kBFloat16, 128, 8, 3>},
    {DType::kBFloat16, 128, 16, 3, &launch_decode<DType::kBFloat16, 128, 16, 3>},
    {DType::kBFloat16, 128, 32, 3, &launch_decode<DType::kBFloat16, 128, 32, 3>},
    {DType::kBFloat16, 256, 8, 3, &launch_decode<DType::kBFloat16, 256, 8, 3>},
    {DType::kBFloat16, 256, 16, 3, &launch_decode<DType::kBFloat16, 256, 16, 3>},
    {DType::kFloat16, 64, 8, 5, &launch_decode<DType::kFloat16, 64, 8, 5>},
    {DType::kFloat16, 64, 16, 5, &launch_decode<DType::kFloat16, 64, 16, 5>},
    {DType::kFloat16, 64, 32, 6, &launch_decode<DType::kFloat16, 64, 32, 6>},
    {DType::kFloat16, 128, 8, 3, &launch_decode<DType::kFloat16, 128, 8, 3>},
    {DType::kFloat16, 128, 16, 3, &launch_decode<DType::kFloat16, 128, 16, 3>},
    {DType::kFloat16, 128, 32, 3, &launch_decode<DType::kFloat16, 128, 32, 3>},
    {DType::kFloat16, 256, 8, 3, &launch_decode<DType::kFloat16, 256, 8, 3>},
    {DType::kFloat16, 256, 16, 3, &launch_decode<DType::kFloat16, 256, 16, 3>},
};

}  // namespace tilegate
