// SPDX-License-Identifier: Apache-2.0
// An attention call as plain data: validated, defaults resolved, views brought to one form. In a
// Problem every data pointer is null; at launch the same struct carries the caller's pointers.
#pragma once

#include <cstdint>

#include "tilegate/attention.h"

namespace tilegate {

enum class AttentionOp : std::uint8_t { kPrefillRagged, kPrefillPaged, kDecodePaged };

struct AttentionProblem {
  AttentionOp op = AttentionOp::kPrefillRagged;
  DType dtype = DType::kBFloat16;  // of q, k, v and o
  std::int64_t batch = 0;
  std::int64_t total_q = 0;  // rows of q, counting those past the last offset
  std::int64_t heads_q = 0;
  std::int64_t heads_kv = 0;
  std::int64_t dim_qk = 0;
  std::int64_t dim_v = 0;

  // >= 0: every request has this many rows and q, o, lse are [batch, rows, ..]; no qo_indptr.
  std::int64_t uniform_qo_len = -1;
  // >= 0: every request has this many keys and k, v are [batch, keys, ..]; no kv_indptr.
  std::int64_t uniform_kv_len = -1;
  std::int64_t max_qo_len = 0;  // upper bounds: declared, else what the shapes allow
  std::int64_t max_kv_len = 0;
  bool max_qo_len_declared = false;
  bool max_kv_len_declared = false;
  std::int64_t page_size = 0;  // 0: not paged

  float scale = 1.0f;
  float soft_cap = 0.0f;  // 0: off
  bool causal = false;
  std::int64_t window_left = -1;   // -1: unlimited
  std::int64_t window_right = -1;  // -1: unlimited
  LseBase lse_base = LseBase::kLog2;
  std::int64_t fixed_split_size = 0;
  bool disable_split_kv = false;
  bool batch_invariant = false;
  Backend backend = Backend::kAuto;

  // Uniform: [batch, rows, heads, dim]. Ragged: [1, total rows, heads, dim] with qo_indptr.
  TensorView q;
  TensorView o;
  TensorView lse;  // [.., rows, heads] like q; may be absent
  // Paged: [pages, page_size, heads_kv, dim], whatever the caller's layout. Uniform: [batch, keys,
  // heads_kv, dim]. Ragged: [1, total keys, heads_kv, dim] with kv_indptr.
  TensorView k;
  TensorView v;
  TensorView qo_indptr;
  TensorView kv_indptr;  // in keys (ragged) or pages (paged CSR)
  TensorView kv_indices;
  TensorView kv_last_page_len;
  TensorView block_tables;
  TensorView kv_lens;
  TensorView sinks;
  TensorView custom_mask;         // one byte an entry
  TensorView packed_custom_mask;  // bits, LSB first, each request on a byte boundary

  bool paged() const { return page_size > 0; }
  std::int64_t group_size() const { return heads_q / heads_kv; }
  bool operator==(const AttentionProblem&) const = default;
};

struct AppendProblem {
  DType dtype = DType::kBFloat16;
  std::int64_t tokens = 0;
  std::int64_t batch = 0;
  std::int64_t heads_kv = 0;
  std::int64_t dim_k = 0;
  std::int64_t dim_v = 0;
  std::int64_t page_size = 0;
  Backend backend = Backend::kAuto;
  TensorView k;        // [tokens, heads_kv, dim_k]
  TensorView v;        // [tokens, heads_kv, dim_v]
  TensorView k_cache;  // [pages, page_size, heads_kv, dim_k], in and out
  TensorView v_cache;
  TensorView batch_indices;  // absent: request 0
  TensorView positions;      // < 0 skips
  TensorView kv_indptr;
  TensorView kv_indices;
  TensorView kv_last_page_len;
  TensorView block_tables;
  TensorView kv_lens;
  bool operator==(const AppendProblem&) const = default;
};

struct MergeProblem {
  DType dtype = DType::kBFloat16;  // of v and o
  std::int64_t rows = 0;
  std::int64_t parts = 0;
  std::int64_t heads = 0;
  std::int64_t dim = 0;
  Backend backend = Backend::kAuto;
  TensorView v;    // [rows, parts, heads, dim]
  TensorView s;    // [rows, parts, heads] fp32, base 2
  TensorView o;    // [rows, heads, dim]
  TensorView lse;  // [rows, heads] fp32, base 2; may be absent
  bool operator==(const MergeProblem&) const = default;
};

}  // namespace tilegate
