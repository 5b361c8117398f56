// SPDX-License-Identifier: Apache-2.0
// Element types that a kernel learns at run time, and small index arrays. Host-safe.
#pragma once

#include <cstdint>

namespace tilegate::tile {

enum class ElementKind : int { kFp32, kBf16, kFp16 };

// A rank-1 array of int32 or int64. `data` is null when the array is absent.
struct IndexArray {
  const void* data = nullptr;
  std::int32_t step = 0;  // bytes between entries
  int is_int64 = 0;
};

}  // namespace tilegate::tile
