// SPDX-License-Identifier: Apache-2.0
// Index values of attention calls in host memory: offsets, lengths, page ids, mask sizes. Kernels
// trust them; on the CPU every run checks them first.
#include <algorithm>
#include <vector>

#include "core/element.h"
#include "core/message.h"
#include "problem/attention_normalise.h"
#include "problem/lengths.h"

namespace tilegate {
namespace {

// `end_name` is what the last offset may not pass.
struct Offsets {
  std::string_view name;
  const TensorView& view;
  std::string_view end_name;
  std::int64_t end;
};

Status check_offset_values(const Offsets& offsets) {
  const std::int64_t count = offsets.view.shape[0];
  std::int64_t before = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t value = index_at(offsets.view, i);
    if (i == 0 && value != 0) return invalid("{} must start at 0, got {}", offsets.name, value);
    if (value < before) {
      return invalid("{} must not decrease, got {} after {} at entry {}", offsets.name, value,
                     before, i);
    }
    before = value;
  }
  if (before > offsets.end) {
    return invalid("{} must end within the {} {}, got {}", offsets.name, offsets.end,
                   offsets.end_name, before);
  }
  return {};
}

Status check_page_ids(const TensorView& table, std::int64_t pages, std::int64_t request,
                      std::int64_t begin, std::int64_t count) {
  const bool dense = table.rank == 2;
  for (std::int64_t i = begin; i < begin + count; ++i) {
    const std::int64_t id = dense ? index_at(table, request, i) : index_at(table, i);
    if (id < 0 || id >= pages) {
      return invalid("{} must hold page ids in 0..{}, got {} for request {}",
                     dense ? "block_tables" : "kv_indices", pages - 1, id, request);
    }
  }
  return {};
}

// Works for AttentionProblem and AppendProblem. `pages` is the size of the cache.
template <class P>
Status check_block_tables(const P& p, std::int64_t pages) {
  const std::int64_t capacity = page_capacity(p.block_tables.shape[1], p.page_size);
  for (std::int64_t b = 0; b < p.batch; ++b) {
    const std::int64_t len = index_at(p.kv_lens, b);
    if (len < 0 || len > capacity) {
      return invalid("kv_lens must be in 0..{} (max_pages * page_size), got {} for request {}",
                     capacity, len, b);
    }
    const std::int64_t used = len > 0 ? (len - 1) / p.page_size + 1 : 0;
    TILEGATE_RETURN_IF_ERROR(check_page_ids(p.block_tables, pages, b, 0, used));
  }
  return {};
}

template <class P>
Status check_csr(const P& p, std::int64_t pages) {
  TILEGATE_RETURN_IF_ERROR(check_offset_values(
      {"kv_indptr", p.kv_indptr, "entries of kv_indices", p.kv_indices.shape[0]}));
  for (std::int64_t b = 0; b < p.batch; ++b) {
    const std::int64_t begin = index_at(p.kv_indptr, b);
    const std::int64_t count = index_at(p.kv_indptr, b + 1) - begin;
    const std::int64_t last = index_at(p.kv_last_page_len, b);
    const std::int64_t most = count > 0 ? p.page_size : 0;
    if (last < 0 || last > most) {
      return invalid("kv_last_page_len must be in 0..{} for a request of {} pages, got {}", most,
                     count, last);
    }
    const std::int64_t used = last > 0 ? count : std::max<std::int64_t>(count - 1, 0);
    TILEGATE_RETURN_IF_ERROR(check_page_ids(p.kv_indices, pages, b, begin, used));
  }
  return {};
}

template <class P>
Status check_page_table(const P& p, std::int64_t pages) {
  return p.block_tables.present() ? check_block_tables(p, pages) : check_csr(p, pages);
}

Status check_masks(const AttentionProblem& p) {
  if (!p.custom_mask.present() && !p.packed_custom_mask.present()) return {};
  std::int64_t entries = 0;
  std::int64_t bytes = 0;
  for (std::int64_t b = 0; b < p.batch; ++b) {
    const std::int64_t count = qo_len(p, b) * kv_len(p, b);
    entries += count;
    bytes += (count + 7) / 8;
  }
  if (p.custom_mask.present() && p.custom_mask.shape[0] != entries) {
    return invalid("custom_mask must have sum of qo_len * kv_len = {} entries, got {}", entries,
                   p.custom_mask.shape[0]);
  }
  if (p.packed_custom_mask.present() && p.packed_custom_mask.shape[0] != bytes) {
    return invalid(
        "packed_custom_mask must have sum of ceil(qo_len * kv_len / 8) = {} bytes, got {}", bytes,
        p.packed_custom_mask.shape[0]);
  }
  return {};
}

Status check_maxima(const AttentionProblem& p) {
  for (std::int64_t b = 0; b < p.batch; ++b) {
    if (qo_len(p, b) > p.max_qo_len) {
      return invalid("max_qo_len must be at least the longest request, got {} for {} rows",
                     p.max_qo_len, qo_len(p, b));
    }
    if (kv_len(p, b) > p.max_kv_len) {
      return invalid("max_kv_len must be at least the longest request, got {} for {} keys",
                     p.max_kv_len, kv_len(p, b));
    }
  }
  return {};
}

// Where a token goes: its place in the caches, and the request that says so.
struct Place {
  std::int64_t page = 0;
  std::int64_t slot = 0;
  std::int64_t token = 0;
};

// Two tokens for one place would race: which stays would be nobody's promise.
Status check_places(std::vector<Place>& places) {
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
    if (a.page != b.page) return a.page < b.page;
    return a.slot != b.slot ? a.slot < b.slot : a.token < b.token;
  });
  for (std::size_t i = 1; i < places.size(); ++i) {
    const Place& a = places[i - 1];
    const Place& b = places[i];
    if (a.page != b.page || a.slot != b.slot) continue;
    return invalid("positions must name a place once, got slot {} of page {} for tokens {} and {}",
                   a.slot, a.page, a.token, b.token);
  }
  return {};
}

}  // namespace

Status check_attention_values(const AttentionProblem& p) {
  if (p.qo_indptr.present()) {
    TILEGATE_RETURN_IF_ERROR(
        check_offset_values({"qo_indptr", p.qo_indptr, "rows of q", p.total_q}));
  }
  if (p.paged()) {
    TILEGATE_RETURN_IF_ERROR(check_page_table(p, p.k.shape[0]));
  } else if (p.kv_indptr.present()) {
    TILEGATE_RETURN_IF_ERROR(
        check_offset_values({"kv_indptr", p.kv_indptr, "rows of k", p.k.shape[1]}));
  }
  TILEGATE_RETURN_IF_ERROR(check_maxima(p));
  return check_masks(p);
}

Status check_append_values(const AppendProblem& p) {
  TILEGATE_RETURN_IF_ERROR(check_page_table(p, p.k_cache.shape[0]));
  std::vector<Place> places;
  for (std::int64_t t = 0; t < p.tokens; ++t) {
    const std::int64_t position = index_at(p.positions, t);
    if (position < 0) continue;
    const std::int64_t b = p.batch_indices.present() ? index_at(p.batch_indices, t) : 0;
    if (b < 0 || b >= p.batch) {
      return invalid("batch_indices must be in 0..{}, got {}", p.batch - 1, b);
    }
    const std::int64_t len = page_table_len(p, b);
    if (position >= len) {
      return invalid("positions must be below the request's kv length {}, got {}", len, position);
    }
    places.push_back({page_id(p, b, position / p.page_size), position % p.page_size, t});
  }
  return check_places(places);
}

}  // namespace tilegate
