// SPDX-License-Identifier: Apache-2.0
// Paged KV caches and page tables: shapes, dtypes, layouts.
#include "problem/paged_layout.h"

#include "core/layout.h"

namespace tilegate {
namespace {

constexpr int kCacheRank = 4;        // [pages, page_size, heads, dim]
constexpr int kInterleavedRank = 5;  // [pages, 2, page_size, heads, dim]

Status check_cache(const Named& cache) {
  TILEGATE_RETURN_IF_ERROR(require_rank(cache, kCacheRank));
  TILEGATE_RETURN_IF_ERROR(require_float(cache));
  return require_inner_contiguous(cache);
}

}  // namespace

Result<PagedCache> paged_cache(const TensorView& k_cache, const TensorView& v_cache,
                               const TensorView& kv_cache, KvLayout layout) {
  PagedCache cache{k_cache, v_cache};
  if (kv_cache.present()) {
    if (k_cache.present() || v_cache.present()) {
      return invalid("kv_cache must be given alone, got it beside {}",
                     k_cache.present() ? "k_cache" : "v_cache");
    }
    TILEGATE_RETURN_IF_ERROR(require_rank({"kv_cache", kv_cache}, kInterleavedRank));
    if (kv_cache.shape[1] != 2) {
      return invalid("kv_cache must have 2 in dimension 1 (k and v), got {}",
                     describe_shape(kv_cache));
    }
    cache = {select(kv_cache, 1, 0), select(kv_cache, 1, 1)};
  }
  TILEGATE_RETURN_IF_ERROR(check_cache({kv_cache.present() ? "kv_cache" : "k_cache", cache.k}));
  TILEGATE_RETURN_IF_ERROR(check_cache({kv_cache.present() ? "kv_cache" : "v_cache", cache.v}));
  if (layout == KvLayout::kHnd) {
    cache = {swap_axes(cache.k, 1, 2), swap_axes(cache.v, 1, 2)};
  }
  for (int axis = 0; axis < kCacheRank - 1; ++axis) {
    if (cache.k.shape[axis] != cache.v.shape[axis]) {
      return invalid("v_cache must have k_cache's pages, page_size and heads, got {} beside {}",
                     describe_shape(v_cache), describe_shape(k_cache));
    }
  }
  if (cache.k.shape[1] < 1) {
    return invalid("k_cache must have a page_size of at least 1, got {}", describe_shape(k_cache));
  }
  return cache;
}

Result<std::int64_t> page_table_batch(const PageTable& table) {
  const bool csr =
      table.kv_indptr.present() || table.kv_indices.present() || table.kv_last_page_len.present();
  const bool dense = table.block_tables.present() || table.kv_lens.present();
  if (csr == dense) {
    return invalid(
        "page table must be either kv_indptr + kv_indices + kv_last_page_len or block_tables + "
        "kv_lens, got {}",
        csr ? "both" : "neither");
  }
  if (dense) {
    TILEGATE_RETURN_IF_ERROR(require_rank({"block_tables", table.block_tables}, 2));
    TILEGATE_RETURN_IF_ERROR(require_index({"block_tables", table.block_tables}));
    const std::int64_t batch = table.block_tables.shape[0];
    TILEGATE_RETURN_IF_ERROR(require_shape({"kv_lens", table.kv_lens}, {batch}));
    TILEGATE_RETURN_IF_ERROR(require_index({"kv_lens", table.kv_lens}));
    return batch;
  }
  TILEGATE_RETURN_IF_ERROR(require_rank({"kv_indptr", table.kv_indptr}, 1));
  TILEGATE_RETURN_IF_ERROR(require_index({"kv_indptr", table.kv_indptr}));
  if (table.kv_indptr.shape[0] < 1) {
    return invalid("kv_indptr must have batch + 1 entries, got {}",
                   describe_shape(table.kv_indptr));
  }
  const std::int64_t batch = table.kv_indptr.shape[0] - 1;
  TILEGATE_RETURN_IF_ERROR(require_rank({"kv_indices", table.kv_indices}, 1));
  TILEGATE_RETURN_IF_ERROR(require_index({"kv_indices", table.kv_indices}));
  TILEGATE_RETURN_IF_ERROR(require_shape({"kv_last_page_len", table.kv_last_page_len}, {batch}));
  TILEGATE_RETURN_IF_ERROR(require_index({"kv_last_page_len", table.kv_last_page_len}));
  return batch;
}

}  // namespace tilegate
