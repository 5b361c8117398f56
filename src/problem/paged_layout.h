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

// The page table's part of an AttentionProblem or AppendProblem.
template <class Problem>
Status fill_page_table(const PageTable& table, Problem& p) {
  const Result<std::int64_t> batch = page_table_batch(table);
  if (!batch.ok()) return batch.status();
  p.batch = *batch;
  p.kv_indptr = table.kv_indptr;
  p.kv_indices = table.kv_indices;
  p.kv_last_page_len = table.kv_last_page_len;
  p.block_tables = table.block_tables;
  p.kv_lens = table.kv_lens;
  return {};
}

}  // namespace tilegate
