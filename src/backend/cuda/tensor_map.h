// SPDX-License-Identifier: Apache-2.0
// TMA tensor maps. A map holds a pointer, so it is made for each launch and passed by value as a
// __grid_constant__ kernel parameter; none is kept.
#pragma once

#include <cuda.h>

#include <array>
#include <cstdint>

#include "tilegate/status.h"
#include "tilegate/tensor.h"

namespace tilegate {

// A tensor of 16-bit or 32-bit floats, innermost dimension first.
struct TensorMapShape {
  void* data = nullptr;  // 16-byte aligned
  DType dtype = DType::kBFloat16;
  int rank = 0;                            // 2..4
  std::array<std::uint64_t, 4> dims{};     // elements
  std::array<std::uint64_t, 4> strides{};  // elements; strides[0] is 1
  std::array<std::uint32_t, 4> box{};      // elements of one copy
  bool swizzle_128 = true;                 // box[0] spans 128 bytes
};

// Errors: cuda, with the driver's code; unsupported when the driver has no TMA entry point.
Status make_tensor_map(const TensorMapShape& shape, CUtensorMap* map);

}  // namespace tilegate
