// SPDX-License-Identifier: Apache-2.0
// The paged KV cache and its page table, brought to one form for attention and append.
#pragma once

#include "tilegate/attention.h"
#include "tilegate/status.h"

namespace tilegate {

struct PagedCache {
  TensorView k;  // [pages, page_size, heads_kv, dim]
  TensorView v;
};

// Takes k_cache and v_cache, or one interleaved kv_cache, in NHD or HND.
Result<PagedCache> paged_cache(const TensorView& k_cache, const TensorView& v_cache,
                               const TensorView& kv_cache, KvLayout layout);

// Checks shapes and dtypes of a page table and returns its number of requests.
Result<std::int64_t> page_table_batch(const PageTable& table);

}  // namespace tilegate
