// SPDX-License-Identifier: Apache-2.0
// Dense prefill [B, S, H, D], paged calls with shuffled pages in a dense table, delta-rule prefill
// packed with cu_seqlens, and delta-rule decode over a pool of states updated in place.
#include "bench/rows/calls.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace tilegate::bench {
namespace {

std::vector<std::int32_t> iota(std::int64_t count) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

PrefillRaggedArgs dense_args(const AttentionShape& s, Tensors& t) {
  PrefillRaggedArgs a;
  a.q =
      t.filled(s.dtype, {s.batch_size, s.query_length, s.num_heads, s.head_size}, Values::kNormal);
  a.k =
      t.filled(s.dtype, {s.batch_size, s.kv_length, s.num_kv_heads, s.head_size}, Values::kNormal);
  a.v =
      t.filled(s.dtype, {s.batch_size, s.kv_length, s.num_kv_heads, s.head_size}, Values::kNormal);
  a.o = t.empty(s.dtype, {s.batch_size, s.query_length, s.num_heads, s.head_size});
  return a;
}

// PrefillPagedArgs or DecodePagedArgs.
template <class Args>
Args paged_args(const AttentionShape& s, Tensors& t) {
  const std::int64_t rows = s.batch_size * s.query_length;
  const std::int64_t pages_each = (s.kv_length + s.page_size - 1) / s.page_size;
  const std::int64_t pages = s.batch_size * pages_each;
  Args a;
  a.q = t.filled(s.dtype, {rows, s.num_heads, s.head_size}, Values::kNormal);
  a.k_cache = t.filled(s.dtype, {pages, s.page_size, s.num_kv_heads, s.head_size}, Values::kNormal);
  a.v_cache = t.filled(s.dtype, {pages, s.page_size, s.num_kv_heads, s.head_size}, Values::kNormal);
  a.o = t.empty(s.dtype, {rows, s.num_heads, s.head_size});
  std::vector<std::int32_t> order = iota(pages);
  std::mt19937 random(1);
  std::shuffle(order.begin(), order.end(), random);
  a.table.block_tables = t.indices(order, {s.batch_size, pages_each});
  const std::vector<std::int32_t> lens(static_cast<std::size_t>(s.batch_size),
                                       static_cast<std::int32_t>(s.kv_length));
  a.table.kv_lens = t.indices(lens, {s.batch_size});
  return a;
}

CallArgs attention_args(const AttentionShape& s, Tensors& t) {
  if (s.op == AttentionOp::kPrefill) return dense_args(s, t);
  if (s.op == AttentionOp::kDecode) return paged_args<DecodePagedArgs>(s, t);
  PrefillPagedArgs a = paged_args<PrefillPagedArgs>(s, t);
  std::vector<std::int32_t> offsets = iota(s.batch_size + 1);
  for (std::int32_t& x : offsets) x *= static_cast<std::int32_t>(s.query_length);
  a.qo_indptr = t.indices(offsets, {s.batch_size + 1});
  return a;
}

bool by_channel(Rule rule) { return rule == Rule::kKda || rule == Rule::kGdn2; }

// KDA with random gates takes them raw, with A_log, a lower bound, l2norm and logits beta.
bool raw_kda(const LinearShape& s) { return s.rule == Rule::kKda && s.raw_gates(); }

Values gate_values(const LinearShape& s) {
  if (raw_kda(s)) return Values::kNormal;
  const bool log = by_channel(s.rule);
  if (s.gates == Gates::kSteep) return log ? Values::kSteepLog : Values::kSteep;
  if (s.gates == Gates::kNone) return log ? Values::kZero : Values::kOne;
  return log ? Values::kForgetSlowlyLog : Values::kForgetSlowly;
}

std::int64_t state_heads(const LinearShape& s) { return std::max(s.heads_qk, s.heads_v); }

void add_gates(const LinearShape& s, Tensors& t, DeltaRuleArgs& a) {
  const std::int64_t tokens = s.tokens(), heads = state_heads(s), dim = s.head_size;
  const DType f32 = DType::kFloat32;
  const DType gate = raw_kda(s) ? s.dtype : f32;
  if (by_channel(s.rule)) {
    a.g = t.filled(gate, {tokens, heads, dim}, gate_values(s));
  } else {
    a.g = t.filled(f32, {tokens, heads}, gate_values(s));
  }
  if (s.rule == Rule::kGdn2) {
    a.beta = t.filled(f32, {tokens, heads, dim}, Values::kUniform);
    a.w = t.filled(f32, {tokens, heads, dim}, Values::kUniform);
    return;
  }
  a.beta = t.filled(gate, {tokens * s.num_householder, heads},
                    raw_kda(s) ? Values::kNormal : Values::kUniform);
  if (raw_kda(s)) {
    a.A_log = t.filled(f32, {heads}, Values::kKdaRate);
    a.dt_bias = t.filled(f32, {heads, dim}, Values::kZero);
  }
}

void add_pool(const LinearShape& s, Tensors& t, DeltaRuleArgs& a) {
  a.state_pool = t.filled(s.state_dtype, {s.batch_size(), state_heads(s), s.head_size, s.head_size},
                          Values::kUnitRows);
  a.state_indices = t.indices(iota(s.batch_size()), {s.batch_size()});
}

// The op with its own gates: a, b, A_log, dt_bias; q, k, v are [B, T, H, D].
CallArgs gdn_decode_args(const LinearShape& s, Tensors& t) {
  const std::int64_t batch = s.batch_size(), tokens = s.lengths.front(), heads = state_heads(s);
  DeltaRuleArgs a;
  a.q = t.filled(s.dtype, {batch, tokens, s.heads_qk, s.head_size}, Values::kNormal);
  a.k = t.filled(s.dtype, {batch, tokens, s.heads_qk, s.head_size}, Values::kNormal);
  a.v = t.filled(s.dtype, {batch, tokens, s.heads_v, s.head_size}, Values::kNormal);
  a.a = t.filled(s.dtype, {batch, tokens, heads}, Values::kNormal);
  a.b = t.filled(s.dtype, {batch, tokens, heads}, Values::kNormal);
  a.A_log = t.filled(DType::kFloat32, {heads}, Values::kKdaRate);
  a.dt_bias = t.filled(DType::kFloat32, {heads}, Values::kZero);
  a.o = t.empty(s.dtype, {batch, tokens, heads, s.head_size});
  add_pool(s, t, a);
  return a;
}

CallArgs linear_args(const LinearShape& s, Tensors& t) {
  if (s.decode && s.rule == Rule::kGdn) return gdn_decode_args(s, t);
  const std::int64_t tokens = s.tokens(), rows = tokens * s.num_householder;
  DeltaRuleArgs a;
  a.q = t.filled(s.dtype, {tokens, s.heads_qk, s.head_size}, Values::kUnitRows);
  a.k = t.filled(s.dtype, {rows, s.heads_qk, s.head_size}, Values::kUnitRows);
  a.v = t.filled(s.dtype, {rows, s.heads_v, s.head_size}, Values::kNormal);
  add_gates(s, t, a);
  std::vector<std::int32_t> offsets = {0};
  for (std::int64_t length : s.lengths) {
    offsets.push_back(offsets.back() + static_cast<std::int32_t>(length));
  }
  a.cu_seqlens = t.indices(offsets, {s.batch_size() + 1});
  a.o = t.empty(s.dtype, {tokens, state_heads(s), s.head_size});
  if (s.decode) {
    add_pool(s, t, a);
  } else {
    a.output_state =
        t.empty(s.state_dtype, {s.batch_size(), state_heads(s), s.head_size, s.head_size});
  }
  return a;
}

DeltaRule delta_rule(const LinearShape& s) {
  switch (s.rule) {
    case Rule::kGdn:
      return s.decode ? DeltaRule::kGatedDeltaRuleDecode : DeltaRule::kGatedDeltaRule;
    case Rule::kGdn2:
      return DeltaRule::kGatedDeltaRule2;
    case Rule::kGdp:
      return DeltaRule::kGatedDeltaProduct;
    case Rule::kKda:
      return DeltaRule::kKda;
  }
  return DeltaRule::kGatedDeltaRule;
}

DeltaRuleOptions linear_options(const LinearShape& s, Backend backend) {
  DeltaRuleOptions options;
  options.backend = backend;
  options.output_final_state = !s.decode;
  options.num_householder = s.num_householder;
  options.max_seqlen = *std::max_element(s.lengths.begin(), s.lengths.end());
  if (raw_kda(s)) {
    options.use_gate_in_kernel = true;
    options.lower_bound = -5.0;
    options.beta_is_logit = true;
    options.use_qk_l2norm = true;
  }
  return options;
}

AttentionOptions attention_options(const AttentionShape& s, Backend backend) {
  AttentionOptions options;
  options.backend = backend;
  options.causal = s.causal;
  options.max_qo_len = s.query_length;
  options.max_kv_len = s.kv_length;
  if (s.op == AttentionOp::kDecode) options.q_len_per_req = s.query_length;
  return options;
}

}  // namespace

CallArgs make_args(const Shape& shape, Tensors& tensors) {
  if (const auto* attention = std::get_if<AttentionShape>(&shape)) {
    return attention_args(*attention, tensors);
  }
  return linear_args(std::get<LinearShape>(shape), tensors);
}

Result<Problem> describe_call(const Shape& shape, const CallArgs& args, Backend backend) {
  if (const auto* s = std::get_if<LinearShape>(&shape)) {
    return describe(delta_rule(*s), std::get<DeltaRuleArgs>(args), linear_options(*s, backend));
  }
  const AttentionOptions options = attention_options(std::get<AttentionShape>(shape), backend);
  if (const auto* dense = std::get_if<PrefillRaggedArgs>(&args)) return describe(*dense, options);
  if (const auto* paged = std::get_if<PrefillPagedArgs>(&args)) return describe(*paged, options);
  return describe(std::get<DecodePagedArgs>(args), options);
}

}  // namespace tilegate::bench
