// SPDX-License-Identifier: Apache-2.0
// Softmax attention: arguments and options of the five attention calls. Formula: docs/attention.md.
//
// All tensors live on the context's device. Only the innermost dimension of q, k, v and o must be
// contiguous; other strides are free (outputs: positive, non-overlapping). Index tensors are int32
// or int64. A default-constructed TensorView means the argument is absent.
#pragma once

#include <cstdint>
#include <optional>

#include "tilegate/tensor.h"

namespace tilegate {

enum class Backend : std::uint8_t { kAuto, kReference, kCpu, kCuda, kCudnn };
enum class LseBase : std::uint8_t { kLog2, kNatural };
enum class KvLayout : std::uint8_t { kNhd, kHnd };

struct AttentionOptions {
  std::optional<double> scale;     // absent: 1 / sqrt(head_dim_qk); 0.0 is a value
  bool causal = false;             // bottom-right aligned; decode is always causal
  std::int64_t window_left = -1;   // keys visible before the diagonal; -1: unlimited
  std::int64_t window_right = -1;  // keys visible after the diagonal; -1: unlimited
  double logits_soft_cap = 0.0;    // s = cap * tanh(x * scale / cap); 0: off
  LseBase lse_base = LseBase::kLog2;
  KvLayout kv_layout = KvLayout::kNhd;
  std::int64_t q_len_per_req = 1;  // decode: query rows a request, 1..16
  // Declared upper bounds of query rows and keys a request; 0: from shapes. One that times the
  // batch is exactly the rows of a ragged tensor says that all its requests have that many.
  std::int64_t max_qo_len = 0;
  std::int64_t max_kv_len = 0;
  std::int64_t fixed_split_size = 0;  // keys a KV split; 0: the planner chooses
  bool disable_split_kv = false;
  bool batch_invariant = false;  // bits of a request do not depend on its batch
  Backend backend = Backend::kAuto;
};

// Ragged prefill. Dense batches pass q [B,Sq,Hq,Dqk], k [B,Sk,Hkv,Dqk], v [B,Sk,Hkv,Dv] and
// o [B,Sq,Hq,Dv] without offsets (lse stays [B*Sq, Hq]).
struct PrefillRaggedArgs {
  TensorView q;                   // [Tq, Hq, Dqk] fp16 | bf16 | fp32
  TensorView k;                   // [Tk, Hkv, Dqk]
  TensorView v;                   // [Tk, Hkv, Dv]
  TensorView qo_indptr;           // [B + 1]
  TensorView kv_indptr;           // [B + 1]
  TensorView sinks;               // optional [Hq] fp32, natural units
  TensorView custom_mask;         // optional [sum qo_len * kv_len] u8 | bool, any nonzero is true
  TensorView packed_custom_mask;  // optional u8, LSB first, each request on a byte boundary
  TensorView o;                   // out [Tq, Hq, Dv]; rows past the last offset stay untouched
  TensorView lse;                 // optional out [Tq, Hq] fp32
};

// Which pages hold the keys of each request: CSR, or a dense table with lengths.
struct PageTable {
  TensorView kv_indptr;         // CSR [B + 1], in pages
  TensorView kv_indices;        // CSR [pages used]
  TensorView kv_last_page_len;  // CSR [B]; 0 for a request without pages
  TensorView block_tables;      // dense [B, max_pages]; entries past a request's pages are not read
  TensorView kv_lens;           // dense [B], keys a request
};

// Either k_cache and v_cache, or one interleaved kv_cache.
// NHD: caches [pages, page_size, Hkv, D], interleaved [pages, 2, page_size, Hkv, D].
// HND: caches [pages, Hkv, page_size, D], interleaved [pages, 2, Hkv, page_size, D].
struct PrefillPagedArgs {
  TensorView q;  // [Tq, Hq, Dqk]
  TensorView k_cache;
  TensorView v_cache;
  TensorView kv_cache;
  PageTable table;
  TensorView qo_indptr;  // [B + 1]
  TensorView sinks;
  TensorView custom_mask;
  TensorView packed_custom_mask;
  TensorView o;    // out [Tq, Hq, Dv]
  TensorView lse;  // optional out [Tq, Hq] fp32
};

// q_len_per_req rows a request, bottom-right causal always.
struct DecodePagedArgs {
  TensorView q;  // [B * q_len_per_req, Hq, Dqk]
  TensorView k_cache;
  TensorView v_cache;
  TensorView kv_cache;
  PageTable table;
  TensorView sinks;
  TensorView custom_mask;
  TensorView packed_custom_mask;
  TensorView o;    // out [B * q_len_per_req, Hq, Dv]
  TensorView lse;  // optional out [B * q_len_per_req, Hq] fp32
};

// Scatters new tokens into pages: token t goes to position positions[t] of request
// batch_indices[t]. A negative position skips the token.
struct AppendPagedKvArgs {
  TensorView k;              // [T, Hkv, Dqk]
  TensorView v;              // [T, Hkv, Dv]
  TensorView batch_indices;  // [T]; may be absent when the page table has one request
  TensorView positions;      // [T]
  TensorView k_cache;        // in and out
  TensorView v_cache;
  TensorView kv_cache;
  PageTable table;
};

struct AppendOptions {
  KvLayout kv_layout = KvLayout::kNhd;
  Backend backend = Backend::kAuto;
};

// Merges P partial attention states a row. v of a part with s = -inf is not read.
struct MergeStatesArgs {
  TensorView v;    // [N, P, H, D]
  TensorView s;    // [N, P, H] fp32, base 2
  TensorView o;    // out [N, H, D], v's dtype
  TensorView lse;  // optional out [N, H] fp32, base 2
};

struct MergeOptions {
  Backend backend = Backend::kAuto;
};

}  // namespace tilegate
