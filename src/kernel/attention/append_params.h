// SPDX-License-Identifier: Apache-2.0
// Parameters of append.cuh. Host-safe.
#pragma once

#include <cstdint>

#include "kernel/attention/page_table_params.h"

namespace tilegate::kernel {

// K or V: tokens [tokens, heads, dim] into a cache [pages, page_size, heads, dim]. Strides in
// bytes.
struct AppendSide {
  const char* tokens = nullptr;
  char* cache = nullptr;
  std::int64_t token = 0, token_head = 0;
  std::int64_t page = 0, slot = 0, cache_head = 0;
  int chunks = 0;  // copies a row: of 16 bytes, or of one element
};

struct AppendParams {
  AppendSide sides[2];  // k, v: blocks of z = 0 and 1
  PageTableParams table;
  IndexArray batch_indices;  // absent: request 0
  IndexArray positions;      // < 0: the token is skipped
  std::int64_t tokens = 0;
  int heads = 1;
  int rows_per_block = 1;
};

}  // namespace tilegate::kernel
