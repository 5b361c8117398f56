// SPDX-License-Identifier: Apache-2.0
// Attention calls to AttentionProblem. Order of checks: options, q, k and v (or caches and page
// table), lengths, o and lse, sinks, masks. The first failure is reported.
#include <cmath>
#include <limits>

#include "core/layout.h"
#include "problem/attention_normalise.h"
#include "problem/lengths.h"
#include "problem/paged_layout.h"

namespace tilegate {
namespace {

constexpr std::int64_t kMaxDecodeRows = 16;
// Of a declared length: products of a length with heads or batches then fit 64 bits.
constexpr std::int64_t kMaxLength = std::numeric_limits<std::int32_t>::max();

struct Outputs {
  const TensorView& o;
  const TensorView& lse;
};

struct Extras {
  const TensorView& sinks;
  const TensorView& custom_mask;
  const TensorView& packed_custom_mask;
};

Status check_window(std::string_view name, std::int64_t keys) {
  if (keys >= -1) return {};
  return invalid("{} must be at least -1, got {}", name, keys);
}

Status check_length(std::string_view name, std::int64_t length) {
  if (length >= 0 && length <= kMaxLength) return {};
  return invalid("{} must be 0..{}, got {}", name, kMaxLength, length);
}

// Kernels compute with both in float32.
Status check_factors(const AttentionOptions& options) {
  const auto cap = static_cast<float>(options.logits_soft_cap);
  if (!std::isfinite(cap) || options.logits_soft_cap < 0) {
    return invalid("logits_soft_cap must be finite in float32 and at least 0, got {}",
                   options.logits_soft_cap);
  }
  if (options.logits_soft_cap > 0 && cap < std::numeric_limits<float>::min()) {
    return invalid("logits_soft_cap must be 0 or a normal float32, got {}",
                   options.logits_soft_cap);
  }
  if (options.scale && !std::isfinite(static_cast<float>(*options.scale))) {
    return invalid("scale must be finite in float32, got {}", *options.scale);
  }
  return {};
}

Status fill_options(const AttentionOptions& options, AttentionProblem& p) {
  TILEGATE_RETURN_IF_ERROR(check_window("window_left", options.window_left));
  TILEGATE_RETURN_IF_ERROR(check_window("window_right", options.window_right));
  TILEGATE_RETURN_IF_ERROR(check_length("max_qo_len", options.max_qo_len));
  TILEGATE_RETURN_IF_ERROR(check_length("max_kv_len", options.max_kv_len));
  TILEGATE_RETURN_IF_ERROR(check_length("fixed_split_size", options.fixed_split_size));
  TILEGATE_RETURN_IF_ERROR(check_factors(options));
  if (options.fixed_split_size > 0 && options.disable_split_kv) {
    return invalid("fixed_split_size must be 0 beside disable_split_kv, got {}",
                   options.fixed_split_size);
  }
  const bool decode = p.op == AttentionOp::kDecodePaged;
  if (!decode && options.q_len_per_req != 1) {
    return invalid("q_len_per_req must be 1 outside decode, got {}", options.q_len_per_req);
  }
  if (decode && (options.q_len_per_req < 1 || options.q_len_per_req > kMaxDecodeRows)) {
    return invalid("q_len_per_req must be 1..{}, got {}", kMaxDecodeRows, options.q_len_per_req);
  }
  p.soft_cap = static_cast<float>(options.logits_soft_cap);
  p.causal = options.causal || decode;
  p.window_left = options.window_left;
  p.window_right = options.window_right;
  p.lse_base = options.lse_base;
  p.fixed_split_size = options.fixed_split_size;
  p.disable_split_kv = options.disable_split_kv;
  p.batch_invariant = options.batch_invariant;
  p.backend = options.backend;
  return {};
}

Status fill_query(const TensorView& q, int rank, AttentionProblem& p) {
  TILEGATE_RETURN_IF_ERROR(require_rank({"q", q}, rank));
  TILEGATE_RETURN_IF_ERROR(require_float({"q", q}));
  TILEGATE_RETURN_IF_ERROR(require_inner_contiguous({"q", q}));
  p.dtype = q.dtype;
  p.heads_q = q.shape[rank - 2];
  p.dim_qk = q.shape[rank - 1];
  if (p.heads_q < 1 || p.dim_qk < 1) {
    return invalid("q must have at least one head and head_dim 1, got {}", describe_shape(q));
  }
  p.total_q = rank == 4 ? q.shape[0] * q.shape[1] : q.shape[0];
  return {};
}

// k and v in their final form: [.., rows, heads, dim].
Status fill_keys(const Named& k, const Named& v, AttentionProblem& p) {
  TILEGATE_RETURN_IF_ERROR(require_dtype(k, p.dtype));
  TILEGATE_RETURN_IF_ERROR(require_dtype(v, p.dtype));
  TILEGATE_RETURN_IF_ERROR(require_inner_contiguous(k));
  TILEGATE_RETURN_IF_ERROR(require_inner_contiguous(v));
  p.heads_kv = k.view.shape[2];
  p.dim_v = v.view.shape[3];
  if (v.view.shape[2] != p.heads_kv) {
    return invalid("{} must have the {} heads of {}, got {}", v.name, p.heads_kv, k.name,
                   v.view.shape[2]);
  }
  if (p.heads_kv < 1 || p.heads_q % p.heads_kv != 0) {
    return invalid("{} must have a number of heads that divides q's {}, got {}", k.name, p.heads_q,
                   p.heads_kv);
  }
  if (k.view.shape[3] != p.dim_qk) {
    return invalid("{} must have q's head_dim {}, got {}", k.name, p.dim_qk, k.view.shape[3]);
  }
  if (p.dim_v < 1) return invalid("{} must have a head_dim of at least 1, got 0", v.name);
  p.k = k.view;
  p.v = v.view;
  return {};
}

Status check_offsets(const Named& indptr, std::int64_t batch) {
  TILEGATE_RETURN_IF_ERROR(require_rank(indptr, 1));
  TILEGATE_RETURN_IF_ERROR(require_index(indptr));
  if (indptr.view.shape[0] < 1 || (batch >= 0 && indptr.view.shape[0] != batch + 1)) {
    return invalid("{} must have batch + 1{} entries, got {}", indptr.name,
                   batch >= 0 ? fmt::format(" = {}", batch + 1) : "", describe_shape(indptr.view));
  }
  return {};
}

// Brings [rows, ..] to [1, rows, ..] or, for uniform requests, [batch, rows a request, ..].
TensorView by_request(const TensorView& view, const AttentionProblem& p) {
  return p.uniform_qo_len >= 0 ? split_axis(view, 0, p.batch) : insert_axis(view, 0);
}

Status fill_outputs(const Outputs& out, int rank, AttentionProblem& p) {
  TILEGATE_RETURN_IF_ERROR(require_rank({"o", out.o}, rank));
  TILEGATE_RETURN_IF_ERROR(require_dtype({"o", out.o}, p.dtype));
  if (rank == 4) {
    TILEGATE_RETURN_IF_ERROR(
        require_shape({"o", out.o}, {p.q.shape[0], p.q.shape[1], p.heads_q, p.dim_v}));
  } else {
    TILEGATE_RETURN_IF_ERROR(require_shape({"o", out.o}, {p.total_q, p.heads_q, p.dim_v}));
  }
  TILEGATE_RETURN_IF_ERROR(require_inner_contiguous({"o", out.o}));
  TILEGATE_RETURN_IF_ERROR(require_writable_strides({"o", out.o}));
  p.o = rank == 4 ? out.o : by_request(out.o, p);
  if (!out.lse.present()) return {};
  TILEGATE_RETURN_IF_ERROR(require_dtype({"lse", out.lse}, DType::kFloat32));
  TILEGATE_RETURN_IF_ERROR(require_shape({"lse", out.lse}, {p.total_q, p.heads_q}));
  TILEGATE_RETURN_IF_ERROR(require_writable_strides({"lse", out.lse}));
  p.lse = by_request(out.lse, p);
  return {};
}

Status fill_extras(const Extras& extras, AttentionProblem& p) {
  if (extras.sinks.present()) {
    TILEGATE_RETURN_IF_ERROR(require_dtype({"sinks", extras.sinks}, DType::kFloat32));
    TILEGATE_RETURN_IF_ERROR(require_shape({"sinks", extras.sinks}, {p.heads_q}));
    p.sinks = extras.sinks;
  }
  if (extras.custom_mask.present() && extras.packed_custom_mask.present()) {
    return invalid("packed_custom_mask must be absent beside custom_mask, got both");
  }
  if (extras.custom_mask.present()) {
    TILEGATE_RETURN_IF_ERROR(require_rank({"custom_mask", extras.custom_mask}, 1));
    TILEGATE_RETURN_IF_ERROR(require_mask({"custom_mask", extras.custom_mask}));
    TILEGATE_RETURN_IF_ERROR(require_inner_contiguous({"custom_mask", extras.custom_mask}));
    p.custom_mask = extras.custom_mask;
  }
  if (extras.packed_custom_mask.present()) {
    const Named mask{"packed_custom_mask", extras.packed_custom_mask};
    TILEGATE_RETURN_IF_ERROR(require_rank(mask, 1));
    TILEGATE_RETURN_IF_ERROR(require_dtype(mask, DType::kUInt8));
    TILEGATE_RETURN_IF_ERROR(require_inner_contiguous(mask));
    p.packed_custom_mask = extras.packed_custom_mask;
  }
  return {};
}

void fill_derived(const AttentionOptions& options, AttentionProblem& p) {
  p.scale =
      static_cast<float>(options.scale.value_or(1.0 / std::sqrt(static_cast<double>(p.dim_qk))));
  p.max_qo_len_declared = options.max_qo_len > 0;
  p.max_kv_len_declared = options.max_kv_len > 0;
  if (p.uniform_qo_len >= 0) {
    p.max_qo_len = p.uniform_qo_len;
  } else {
    p.max_qo_len = options.max_qo_len > 0 ? options.max_qo_len : p.total_q;
  }
  if (p.uniform_kv_len >= 0) {
    p.max_kv_len = p.uniform_kv_len;
    return;
  }
  std::int64_t capacity = p.k.shape[1];
  if (p.block_tables.present()) capacity = page_capacity(p.block_tables.shape[1], p.page_size);
  if (p.kv_indices.present()) capacity = page_capacity(p.kv_indices.shape[0], p.page_size);
  p.max_kv_len = options.max_kv_len > 0 ? options.max_kv_len : capacity;
}

// What prefill and decode over pages share: everything up to the query lengths.
template <class Args>
Status fill_paged_inputs(const Args& args, const AttentionOptions& options, AttentionProblem& p) {
  TILEGATE_RETURN_IF_ERROR(fill_options(options, p));
  TILEGATE_RETURN_IF_ERROR(fill_query(args.q, 3, p));
  Result<PagedCache> cache =
      paged_cache(args.k_cache, args.v_cache, args.kv_cache, options.kv_layout);
  if (!cache.ok()) return cache.status();
  TILEGATE_RETURN_IF_ERROR(fill_keys({"k_cache", cache->k}, {"v_cache", cache->v}, p));
  p.page_size = cache->k.shape[1];
  return fill_page_table(args.table, p);
}

// And everything after them.
template <class Args>
Result<Operation> finish_paged(const Args& args, const AttentionOptions& options,
                               AttentionProblem& p) {
  p.q = by_request(args.q, p);
  TILEGATE_RETURN_IF_ERROR(fill_outputs({args.o, args.lse}, 3, p));
  TILEGATE_RETURN_IF_ERROR(fill_extras({args.sinks, args.custom_mask, args.packed_custom_mask}, p));
  fill_derived(options, p);
  return Operation(p);
}

Status fill_dense_lengths(AttentionProblem& p) {
  p.batch = p.q.shape[0];
  if (p.k.shape[0] != p.batch || p.v.shape[0] != p.batch) {
    return invalid("k and v must have q's batch {}, got {} and {}", p.batch, p.k.shape[0],
                   p.v.shape[0]);
  }
  p.uniform_qo_len = p.q.shape[1];
  p.uniform_kv_len = p.k.shape[1];
  return {};
}

Status fill_ragged_lengths(const PrefillRaggedArgs& args, AttentionProblem& p) {
  TILEGATE_RETURN_IF_ERROR(check_offsets({"qo_indptr", args.qo_indptr}, -1));
  p.batch = args.qo_indptr.shape[0] - 1;
  TILEGATE_RETURN_IF_ERROR(check_offsets({"kv_indptr", args.kv_indptr}, p.batch));
  p.qo_indptr = args.qo_indptr;
  p.kv_indptr = args.kv_indptr;
  return {};
}

}  // namespace

Result<Operation> normalise_attention(const PrefillRaggedArgs& args,
                                      const AttentionOptions& options) {
  AttentionProblem p;
  p.op = AttentionOp::kPrefillRagged;
  TILEGATE_RETURN_IF_ERROR(fill_options(options, p));
  const bool dense = args.q.rank == 4;
  const int rank = dense ? 4 : 3;
  if (dense && (args.qo_indptr.present() || args.kv_indptr.present())) {
    return invalid("qo_indptr and kv_indptr must be absent with a dense q {}, got one",
                   describe_shape(args.q));
  }
  TILEGATE_RETURN_IF_ERROR(fill_query(args.q, rank, p));
  TILEGATE_RETURN_IF_ERROR(require_rank({"k", args.k}, rank));
  TILEGATE_RETURN_IF_ERROR(require_rank({"v", args.v}, rank));
  const TensorView k = dense ? args.k : insert_axis(args.k, 0);
  const TensorView v = dense ? args.v : insert_axis(args.v, 0);
  TILEGATE_RETURN_IF_ERROR(fill_keys({"k", k}, {"v", v}, p));
  if (k.shape[1] != v.shape[1]) {
    return invalid("v must have the {} rows of k, got {}", k.shape[1], v.shape[1]);
  }
  p.q = dense ? args.q : insert_axis(args.q, 0);
  TILEGATE_RETURN_IF_ERROR(dense ? fill_dense_lengths(p) : fill_ragged_lengths(args, p));
  TILEGATE_RETURN_IF_ERROR(fill_outputs({args.o, args.lse}, rank, p));
  TILEGATE_RETURN_IF_ERROR(fill_extras({args.sinks, args.custom_mask, args.packed_custom_mask}, p));
  fill_derived(options, p);
  return Operation(p);
}

Result<Operation> normalise_attention(const PrefillPagedArgs& args,
                                      const AttentionOptions& options) {
  AttentionProblem p;
  p.op = AttentionOp::kPrefillPaged;
  TILEGATE_RETURN_IF_ERROR(fill_paged_inputs(args, options, p));
  TILEGATE_RETURN_IF_ERROR(check_offsets({"qo_indptr", args.qo_indptr}, p.batch));
  p.qo_indptr = args.qo_indptr;
  return finish_paged(args, options, p);
}

Result<Operation> normalise_attention(const DecodePagedArgs& args,
                                      const AttentionOptions& options) {
  AttentionProblem p;
  p.op = AttentionOp::kDecodePaged;
  TILEGATE_RETURN_IF_ERROR(fill_paged_inputs(args, options, p));
  p.uniform_qo_len = options.q_len_per_req;
  if (p.total_q != p.batch * p.uniform_qo_len) {
    return invalid("q must have batch * q_len_per_req = {} rows, got {}",
                   p.batch * p.uniform_qo_len, p.total_q);
  }
  return finish_paged(args, options, p);
}

}  // namespace tilegate
