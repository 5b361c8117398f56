// SPDX-License-Identifier: Apache-2.0
// Parameters of merge.cuh. Host-safe. Strides in elements.
#pragma once

#include <cstdint>

namespace tilegate::kernel {

struct MergeParams {
  const void* v = nullptr;   // [rows, parts, heads, dim], innermost contiguous
  const float* s = nullptr;  // [rows, parts, heads], base 2
  void* o = nullptr;         // [rows, heads, dim], innermost contiguous
  float* lse = nullptr;      // [rows, heads], base 2; may be null
  std::int64_t v_row = 0, v_part = 0, v_head = 0;
  std::int64_t s_row = 0, s_part = 0, s_head = 0;
  std::int64_t o_row = 0, o_head = 0;
  std::int64_t lse_row = 0, lse_head = 0;
  std::int64_t rows = 0;
  int parts = 0;
  int heads = 1;
  int chunks = 1;  // of dim
  int rows_per_block = 1;
};

}  // namespace tilegate::kernel
