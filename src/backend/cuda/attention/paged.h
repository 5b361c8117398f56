// SPDX-License-Identifier: Apache-2.0
// From normalised paged views to what the kernels take: page tables, and the layout rules that
// 16-byte copies need.
#pragma once

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <string>

#include "backend/cuda/index.h"
#include "core/message.h"
#include "kernel/attention/page_table_params.h"
#include "tilegate/tensor.h"

namespace tilegate {

inline constexpr std::int64_t kMaxPages = std::int64_t{1} << 30;  // ordinals are 32-bit

// Problem: AttentionProblem or AppendProblem.
template <class Problem>
kernel::PageTableParams page_table_params(const Problem& p) {
  kernel::PageTableParams table;
  if (p.block_tables.present()) {
    table.pages = index_array(p.block_tables, 1);
    table.row_bytes = index_step(p.block_tables, 0);
    table.width = static_cast<int>(std::min(p.block_tables.shape[1], kMaxPages));
    table.lengths = index_array(p.kv_lens);
  } else {
    table.pages = index_array(p.kv_indices);
    table.indptr = index_array(p.kv_indptr);
    table.last_page_len = index_array(p.kv_last_page_len);
  }
  const auto page_size = static_cast<unsigned>(p.page_size);
  table.page_size = static_cast<int>(p.page_size);
  table.page_shift = std::has_single_bit(page_size) ? std::countr_zero(page_size) : -1;
  return table;
}

template <class Problem>
std::optional<std::string> page_table_rejection(const Problem& p) {
  // Keys of a page are numbered in 32 bits.
  constexpr std::int64_t kMaxPageSize = std::numeric_limits<std::int32_t>::max();
  if (p.page_size > kMaxPageSize) {
    return fmt::format("page_size must be at most {}, got {}", kMaxPageSize, p.page_size);
  }
  if (auto reason = index_rejection("block_tables", p.block_tables, 1)) return reason;
  if (auto reason = index_rejection("kv_lens", p.kv_lens)) return reason;
  if (auto reason = index_rejection("kv_indices", p.kv_indices)) return reason;
  if (auto reason = index_rejection("kv_indptr", p.kv_indptr)) return reason;
  return index_rejection("kv_last_page_len", p.kv_last_page_len);
}

// Stride of a dimension, 0 where it is never stepped along.
inline std::int64_t stride_of(const TensorView& view, int dim) {
  return view.shape[dim] > 1 ? view.strides[dim] : 0;
}

// A reason unless every stepped stride but the innermost is a multiple of `elements`.
inline std::optional<std::string> stride_rejection(const char* name, const TensorView& view,
                                                   std::int64_t elements) {
  for (int i = 0; i + 1 < view.rank; ++i) {
    if (stride_of(view, i) % elements != 0) {
      return fmt::format("strides of {} must be multiples of {} elements, got {} in dimension {}",
                         name, elements, view.strides[i], i);
    }
  }
  return std::nullopt;
}

inline constexpr std::int64_t kWordBytes = 16;

// Whether every innermost row of a view begins and ends on a multiple of 16 bytes.
inline bool moves_in_words(const TensorView& view) {
  const std::int64_t elements = kWordBytes / size_of(view.dtype);
  return view.shape[view.rank - 1] % elements == 0 &&
         reinterpret_cast<std::uintptr_t>(view.data) % kWordBytes == 0 &&
         !stride_rejection("", view, elements);
}

// Errors: unsupported unless `view` starts on a multiple of `bytes`.
inline Status check_alignment(const char* name, const TensorView& view, std::uintptr_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(view.data);
  if (address % bytes == 0) return {};
  return unsupported(
      "{} must be aligned to {} bytes for the cuda kernels, got an address {} past one", name,
      bytes, address % bytes);
}

}  // namespace tilegate
