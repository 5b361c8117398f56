// SPDX-License-Identifier: Apache-2.0
// Where the rows, keys, pages and mask bits of one request are: everything a host kernel reads from
// the offsets, lengths and page tables of an AttentionProblem whose tensors are in host memory.
// Values are taken as checked (check_values). All offsets are 64-bit, in elements.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "core/element.h"
#include "problem/attention.h"

namespace tilegate {

// A half-open range.
struct IndexRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
  bool empty() const { return end <= begin; }
};

// Rows of request `b`, counted over the whole batch.
inline IndexRange qo_range(const AttentionProblem& problem, std::int64_t b) {
  const std::int64_t rows = problem.uniform_qo_len;
  if (rows >= 0) return {b * rows, (b + 1) * rows};
  return {index_at(problem.qo_indptr, b), index_at(problem.qo_indptr, b + 1)};
}

inline std::int64_t qo_begin(const AttentionProblem& problem, std::int64_t b) {
  return qo_range(problem, b).begin;
}

inline std::int64_t qo_len(const AttentionProblem& problem, std::int64_t b) {
  return qo_range(problem, b).size();
}

// Keys that `pages` pages hold; the largest number of 64 bits where the product passes it.
inline std::int64_t page_capacity(std::int64_t pages, std::int64_t page_size) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  return pages > kMost / page_size ? kMost : pages * page_size;
}

// Keys before a last page that holds `last_page_len`. A request without pages has no keys.
inline std::int64_t csr_kv_len(const TensorView& kv_indptr, const TensorView& last_page_len,
                               std::int64_t page_size, std::int64_t b) {
  const std::int64_t pages = index_at(kv_indptr, b + 1) - index_at(kv_indptr, b);
  return pages > 0 ? (pages - 1) * page_size + index_at(last_page_len, b) : 0;
}

// Keys of request `b` by its page table. Works for AttentionProblem and AppendProblem.
template <class Paged>
std::int64_t page_table_len(const Paged& problem, std::int64_t b) {
  if (problem.block_tables.present()) return index_at(problem.kv_lens, b);
  return csr_kv_len(problem.kv_indptr, problem.kv_last_page_len, problem.page_size, b);
}

inline std::int64_t kv_len(const AttentionProblem& problem, std::int64_t b) {
  if (problem.paged()) return page_table_len(problem, b);
  if (problem.uniform_kv_len >= 0) return problem.uniform_kv_len;
  return index_at(problem.kv_indptr, b + 1) - index_at(problem.kv_indptr, b);
}

// Page that holds the keys [ordinal * page_size, (ordinal + 1) * page_size) of request `b`. Works
// for AttentionProblem and AppendProblem.
template <class Paged>
std::int64_t page_id(const Paged& problem, std::int64_t b, std::int64_t ordinal) {
  if (problem.block_tables.present()) return index_at(problem.block_tables, b, ordinal);
  return index_at(problem.kv_indices, index_at(problem.kv_indptr, b) + ordinal);
}

// Element offset of (row of the request, head 0) in q, o or lse.
inline std::int64_t qo_offset(const AttentionProblem& problem, const TensorView& view,
                              std::int64_t b, std::int64_t row) {
  if (problem.uniform_qo_len >= 0) return b * view.strides[0] + row * view.strides[1];
  return (index_at(problem.qo_indptr, b) + row) * view.strides[1];
}

// Element offset of (key of the request, head 0) in k or v.
inline std::int64_t kv_offset(const AttentionProblem& problem, const TensorView& view,
                              std::int64_t b, std::int64_t key) {
  if (problem.paged()) {
    const std::int64_t page = page_id(problem, b, key / problem.page_size);
    return page * view.strides[0] + (key % problem.page_size) * view.strides[1];
  }
  if (problem.uniform_kv_len >= 0) return b * view.strides[0] + key * view.strides[1];
  return (index_at(problem.kv_indptr, b) + key) * view.strides[1];
}

// Keys that row `row` may see by kv_len, causal and window alone; a custom mask cuts further.
inline IndexRange visible_keys(const AttentionProblem& problem, std::int64_t row,
                               std::int64_t request_qo_len, std::int64_t request_kv_len) {
  const std::int64_t diagonal = row + request_kv_len - request_qo_len;
  const std::int64_t ahead = problem.causal ? 0 : problem.window_right;
  IndexRange keys{0, request_kv_len};
  // Both windows may be as large as the type: compare before adding.
  const std::int64_t behind = problem.window_left;
  if (behind >= 0 && behind < diagonal) keys.begin = diagonal - behind;
  if (ahead >= 0 && ahead < request_kv_len - diagonal) keys.end = diagonal + ahead + 1;
  keys.end = std::clamp<std::int64_t>(keys.end, 0, request_kv_len);
  return keys;
}

inline bool has_custom_mask(const AttentionProblem& problem) {
  return problem.custom_mask.present() || problem.packed_custom_mask.present();
}

// Bytes of the mask of request `b`: an entry each, or a bit each on whole bytes.
inline std::int64_t mask_bytes(const AttentionProblem& problem, std::int64_t b) {
  const std::int64_t entries = qo_len(problem, b) * kv_len(problem, b);
  return problem.custom_mask.present() ? entries : (entries + 7) / 8;
}

// First mask byte of request `b`: O(b). A kernel that visits all requests sums mask_bytes instead.
inline std::int64_t mask_begin(const AttentionProblem& problem, std::int64_t b) {
  std::int64_t bytes = 0;
  for (std::int64_t i = 0; i < b; ++i) bytes += mask_bytes(problem, i);
  return bytes;
}

// Entry (row, key) of the custom mask of a request whose mask starts at byte `begin`.
inline bool mask_allows(const AttentionProblem& problem, std::int64_t begin,
                        std::int64_t request_kv_len, std::int64_t row, std::int64_t key) {
  const std::int64_t entry = row * request_kv_len + key;
  if (problem.custom_mask.present()) return flag_at(problem.custom_mask, begin + entry);
  const TensorView& packed = problem.packed_custom_mask;
  const std::int64_t byte = (begin + entry / 8) * packed.strides[0];
  return (static_cast<const std::uint8_t*>(packed.data)[byte] >> (entry % 8) & 1) != 0;
}

}  // namespace tilegate
