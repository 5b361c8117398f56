// SPDX-License-Identifier: Apache-2.0
// Delta-rule calls to LinearProblem: one form for five operations. Order of checks: options of the
// op; q; cu_seqlens and max_seqlen; k, v, heads; o; gates, beta, w; then states, checkpoints and
// speculation (linear_states.cpp). The first failure is reported. An argument or option that the
// op does not take is an error, never ignored.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/element.h"
#include "core/layout.h"
#include "problem/linear_normalise.h"
#include "problem/linear_states.h"

namespace tilegate {
namespace {

constexpr std::int64_t kMaxDecodeTokens = 16;
constexpr std::int64_t kMaxHouseholder = 1024;
constexpr std::int64_t kMaxSeqlen = std::numeric_limits<std::int32_t>::max();

Status reject_for_op(const Named& tensor, DeltaRule rule) {
  if (!tensor.view.present()) return {};
  return require_absent(tensor, fmt::format("for {}", call_name(rule)));
}

Status check_gate_options(DeltaRule rule, const DeltaRuleOptions& options) {
  const bool kda = rule == DeltaRule::kKda;
  if (options.use_gate_in_kernel && !kda) {
    return invalid("use_gate_in_kernel must be false for {}, got true", call_name(rule));
  }
  if (options.lower_bound && !options.use_gate_in_kernel) {
    return invalid("lower_bound must be absent without use_gate_in_kernel, got {}",
                   *options.lower_bound);
  }
  const auto bound = static_cast<float>(options.lower_bound.value_or(-1.0));
  if (!std::isfinite(bound) || !(bound < 0)) {
    return invalid("lower_bound must be finite and below 0 in float32, got {}",
                   *options.lower_bound);
  }
  if (options.beta_is_logit && !kda) {
    return invalid("beta_is_logit must be false for {}, got true", call_name(rule));
  }
  if (options.gate_domain == GateDomain::kDefault) return {};
  const std::string_view domain = options.gate_domain == GateDomain::kLog ? "log" : "linear";
  if (rule == DeltaRule::kGatedDeltaRuleDecode) {
    return invalid("gate_domain must be the default for {}, got {}", call_name(rule), domain);
  }
  if (options.use_gate_in_kernel) {
    return invalid("gate_domain must be the default with use_gate_in_kernel, got {}", domain);
  }
  return {};
}

Status fill_options(DeltaRule rule, const DeltaRuleOptions& options, LinearProblem& p) {
  TILEGATE_RETURN_IF_ERROR(check_gate_options(rule, options));
  if (options.scale && !std::isfinite(static_cast<float>(*options.scale))) {
    return invalid("scale must be finite in float32, got {}", *options.scale);
  }
  const std::int64_t n = options.num_householder;
  if (rule != DeltaRule::kGatedDeltaProduct && n != 1) {
    return invalid("num_householder must be 1 for {}, got {}", call_name(rule), n);
  }
  if (n < 1 || n > kMaxHouseholder) {
    return invalid("num_householder must be 1..{}, got {}", kMaxHouseholder, n);
  }
  if (options.max_seqlen < 0 || options.max_seqlen > kMaxSeqlen) {
    return invalid("max_seqlen must be 0..{}, got {}", kMaxSeqlen, options.max_seqlen);
  }
  p.rule = rule;
  p.householder = n;
  p.l2norm = options.use_qk_l2norm.value_or(rule == DeltaRule::kGatedDeltaRuleDecode);
  p.gate_per_channel = rule == DeltaRule::kGatedDeltaRule2 || rule == DeltaRule::kKda;
  p.use_cp = options.use_cp;
  p.batch_invariant = options.batch_invariant;
  p.backend = options.backend;
  return {};
}

// Brings a tensor of tokens, whose last `inner` dimensions are not tokens, to [batch, rows, ..]:
// a leading dimension is the batch, none means a batch of 1.
Result<TensorView> batched(const Named& tensor, int inner) {
  TILEGATE_RETURN_IF_ERROR(require_present(tensor));
  if (tensor.view.rank == inner + 1) return insert_axis(tensor.view, 0);
  if (tensor.view.rank == inner + 2) return tensor.view;
  return invalid("{} must have rank {} or {}, got {}", tensor.name, inner + 1, inner + 2,
                 describe_shape(tensor.view));
}

Status fill_query(const DeltaRuleArgs& args, const DeltaRuleOptions& options, LinearProblem& p) {
  const Named q{"q", args.q};
  Result<TensorView> view = batched(q, 2);
  if (!view.ok()) return view.status();
  TILEGATE_RETURN_IF_ERROR(require_float(q));
  TILEGATE_RETURN_IF_ERROR(require_inner_contiguous(q));
  p.dtype = args.q.dtype;
  p.tokens = view->shape[1];
  p.heads_q = view->shape[2];
  p.dim_k = view->shape[3];
  if (view->shape[0] < 0 || p.tokens < 0 || p.heads_q < 1 || p.dim_k < 1) {
    return invalid("q must have at least one head and head_dim 1, got {}", describe_shape(args.q));
  }
  p.scale =
      static_cast<float>(options.scale.value_or(1.0 / std::sqrt(static_cast<double>(p.dim_k))));
  p.q = *view;
  return {};
}

Status fill_sequences(const DeltaRuleArgs& args, const DeltaRuleOptions& options,
                      LinearProblem& p) {
  const Named cu_seqlens{"cu_seqlens", args.cu_seqlens};
  const bool decode = p.rule == DeltaRule::kGatedDeltaRuleDecode;
  if (decode) {
    TILEGATE_RETURN_IF_ERROR(reject_for_op(cu_seqlens, p.rule));
    if (p.tokens > kMaxDecodeTokens) {
      return invalid("q must have at most {} tokens a sequence for {}, got {}", kMaxDecodeTokens,
                     call_name(p.rule), describe_shape(args.q));
    }
  }
  p.max_seqlen = options.max_seqlen > 0 ? std::min(options.max_seqlen, p.tokens) : p.tokens;
  if (!cu_seqlens.view.present()) {
    p.num_seqs = p.q.shape[0];
    p.uniform_len = p.tokens;
    if (p.max_seqlen == p.tokens) return {};
    return invalid("max_seqlen must be at least the {} tokens of a sequence, got {}", p.tokens,
                   options.max_seqlen);
  }
  TILEGATE_RETURN_IF_ERROR(require_rank(cu_seqlens, 1));
  TILEGATE_RETURN_IF_ERROR(check_index(cu_seqlens, -1));
  if (cu_seqlens.view.shape[0] < 1) {
    return invalid("cu_seqlens must have at least 1 entry, got {}",
                   describe_shape(cu_seqlens.view));
  }
  if (p.q.shape[0] != 1) {
    return invalid("q must have a leading dimension of 1 with cu_seqlens, got {}",
                   describe_shape(args.q));
  }
  p.num_seqs = cu_seqlens.view.shape[0] - 1;
  p.cu_seqlens = cu_seqlens.view;
  return {};
}

// A tensor of tokens with q's batch and `rows` rows a sequence batch, the inner sizes given.
Status fill_rows(const Named& tensor, std::int64_t rows, std::initializer_list<std::int64_t> inner,
                 const LinearProblem& p, TensorView& out) {
  Result<TensorView> view = batched(tensor, static_cast<int>(inner.size()));
  if (!view.ok()) return view.status();
  bool same = view->shape[0] == p.q.shape[0] && view->shape[1] == rows;
  std::string wanted = fmt::format("{}, {}", p.q.shape[0], rows);
  int axis = 2;
  for (std::int64_t size : inner) {
    same = same && view->shape[axis] == size;
    wanted += fmt::format(", {}", size);
    ++axis;
  }
  if (!same) {
    return invalid("{} must have shape [{}]{}, got {}", tensor.name, wanted,
                   p.q.shape[0] == 1 ? ", the leading 1 optional" : "",
                   describe_shape(tensor.view));
  }
  TILEGATE_RETURN_IF_ERROR(require_inner_contiguous(tensor));
  out = *view;
  return {};
}

// Heads: each of q, v equal to or a divisor of the larger; k has the heads of one of them.
Status check_heads(const LinearProblem& p) {
  if (p.heads_v < 1 || p.heads_o % p.heads_q != 0 || p.heads_o % p.heads_v != 0) {
    return invalid("v must have a number of heads that divides or is a multiple of q's {}, got {}",
                   p.heads_q, p.heads_v);
  }
  if (p.heads_k != p.heads_q && p.heads_k != p.heads_v) {
    return invalid("k must have the heads of q ({}) or of v ({}), got {}", p.heads_q, p.heads_v,
                   p.heads_k);
  }
  return {};
}

Status fill_keys_values(const DeltaRuleArgs& args, LinearProblem& p) {
  const Named k{"k", args.k};
  const Named v{"v", args.v};
  const Named o{"o", args.o};
  for (const Named& tensor : {k, v}) {
    Result<TensorView> view = batched(tensor, 2);
    if (!view.ok()) return view.status();
    TILEGATE_RETURN_IF_ERROR(require_dtype(tensor, p.dtype));
  }
  p.heads_k = k.view.shape[k.view.rank - 2];
  p.heads_v = v.view.shape[v.view.rank - 2];
  p.heads_o = std::max(p.heads_q, p.heads_v);
  p.dim_v = v.view.shape[v.view.rank - 1];
  TILEGATE_RETURN_IF_ERROR(check_heads(p));
  if (p.dim_v < 1) return invalid("v must have a head_dim of at least 1, got {}", p.dim_v);
  const std::int64_t rows = p.tokens * p.householder;
  TILEGATE_RETURN_IF_ERROR(fill_rows(k, rows, {p.heads_k, p.dim_k}, p, p.k));
  TILEGATE_RETURN_IF_ERROR(fill_rows(v, rows, {p.heads_v, p.dim_v}, p, p.v));
  TILEGATE_RETURN_IF_ERROR(fill_rows(o, p.tokens, {p.heads_o, p.dim_v}, p, p.o));
  TILEGATE_RETURN_IF_ERROR(require_dtype(o, p.dtype));
  return require_writable_strides(o);
}

// beta, w, a and b: fp32 or q's dtype.
Status check_factor_dtype(const Named& tensor, const LinearProblem& p) {
  const DType dtype = tensor.view.dtype;
  if (dtype == DType::kFloat32 || dtype == p.dtype) return {};
  return invalid("{} must be float32 or q's {}, got {}", tensor.name, to_string(p.dtype),
                 to_string(dtype));
}

// A per-head parameter: one entry (or one [K] row) for every head of q or of the state. Decode has
// state heads only.
Status check_head_parameter(const Named& tensor, bool per_channel, const LinearProblem& p) {
  const TensorView& view = tensor.view;
  TILEGATE_RETURN_IF_ERROR(require_rank(tensor, per_channel ? 2 : 1));
  const bool heads_fit =
      view.shape[0] == p.heads_o || (p.rule == DeltaRule::kKda && view.shape[0] == p.heads_q);
  if (!heads_fit || (per_channel && view.shape[1] != p.dim_k)) {
    const std::string tail = per_channel ? fmt::format(", {}", p.dim_k) : "";
    const std::string other = p.rule == DeltaRule::kKda && p.heads_q != p.heads_o
                                  ? fmt::format(" or [{}{}]", p.heads_q, tail)
                                  : "";
    return invalid("{} must have shape [{}{}]{}, got {}", tensor.name, p.heads_o, tail, other,
                   describe_shape(view));
  }
  return require_inner_contiguous(tensor);
}

Status fill_activation(const DeltaRuleArgs& args, LinearProblem& p) {
  const Named a_log{"A_log", args.A_log};
  const Named dt_bias{"dt_bias", args.dt_bias};
  TILEGATE_RETURN_IF_ERROR(check_head_parameter(a_log, false, p));
  TILEGATE_RETURN_IF_ERROR(require_dtype(a_log, DType::kFloat32));
  p.a_log = args.A_log;
  if (p.rule == DeltaRule::kKda && !dt_bias.view.present()) return {};
  TILEGATE_RETURN_IF_ERROR(check_head_parameter(dt_bias, p.gate_per_channel, p));
  if (dt_bias.view.dtype != DType::kFloat32 && dt_bias.view.dtype != DType::kBFloat16) {
    return invalid("dt_bias must be float32 or bfloat16, got {}", to_string(dt_bias.view.dtype));
  }
  p.dt_bias = args.dt_bias;
  return {};
}

Status fill_decode_gates(const DeltaRuleArgs& args, LinearProblem& p) {
  const Named a{"a", args.a};
  const Named b{"b", args.b};
  TILEGATE_RETURN_IF_ERROR(reject_for_op({"g", args.g}, p.rule));
  TILEGATE_RETURN_IF_ERROR(reject_for_op({"beta", args.beta}, p.rule));
  TILEGATE_RETURN_IF_ERROR(reject_for_op({"w", args.w}, p.rule));
  TILEGATE_RETURN_IF_ERROR(fill_rows(a, p.tokens, {p.heads_o}, p, p.g));
  TILEGATE_RETURN_IF_ERROR(check_factor_dtype(a, p));
  TILEGATE_RETURN_IF_ERROR(fill_rows(b, p.tokens, {p.heads_o}, p, p.beta));
  TILEGATE_RETURN_IF_ERROR(check_factor_dtype(b, p));
  TILEGATE_RETURN_IF_ERROR(fill_activation(args, p));
  p.gate = GateKind::kSoftplus;
  p.erase = EraseKind::kScalar;
  p.write = WriteKind::kErase;
  p.beta_is_logit = true;
  return {};
}

Status fill_decay(const DeltaRuleArgs& args, const DeltaRuleOptions& options, LinearProblem& p) {
  const Named g{"g", args.g};
  if (!options.use_gate_in_kernel) {
    constexpr std::string_view kWhy = "without use_gate_in_kernel";
    TILEGATE_RETURN_IF_ERROR(require_absent({"A_log", args.A_log}, kWhy));
    TILEGATE_RETURN_IF_ERROR(require_absent({"dt_bias", args.dt_bias}, kWhy));
    if (!g.view.present()) return {};
  }
  TILEGATE_RETURN_IF_ERROR(p.gate_per_channel ? fill_rows(g, p.tokens, {p.heads_o, p.dim_k}, p, p.g)
                                              : fill_rows(g, p.tokens, {p.heads_o}, p, p.g));
  TILEGATE_RETURN_IF_ERROR(require_float(g));
  if (options.use_gate_in_kernel) {
    p.gate = options.lower_bound ? GateKind::kLowerBound : GateKind::kSoftplus;
    p.lower_bound = static_cast<float>(options.lower_bound.value_or(0.0));
    return fill_activation(args, p);
  }
  const bool log = options.gate_domain == GateDomain::kDefault
                       ? p.gate_per_channel
                       : options.gate_domain == GateDomain::kLog;
  p.gate = log ? GateKind::kLog : GateKind::kLinear;
  return {};
}

Status fill_gates(const DeltaRuleArgs& args, const DeltaRuleOptions& options, LinearProblem& p) {
  if (p.rule == DeltaRule::kGatedDeltaRuleDecode) return fill_decode_gates(args, p);
  const Named beta{"beta", args.beta};
  const Named w{"w", args.w};
  const bool vector_factors = p.rule == DeltaRule::kGatedDeltaRule2;
  TILEGATE_RETURN_IF_ERROR(reject_for_op({"a", args.a}, p.rule));
  TILEGATE_RETURN_IF_ERROR(reject_for_op({"b", args.b}, p.rule));
  TILEGATE_RETURN_IF_ERROR(fill_decay(args, options, p));
  if (options.beta_is_logit && !beta.view.present()) {
    return invalid("beta must be given with beta_is_logit, got none");
  }
  if (beta.view.present()) {
    TILEGATE_RETURN_IF_ERROR(
        vector_factors ? fill_rows(beta, p.tokens, {p.heads_o, p.dim_k}, p, p.beta)
                       : fill_rows(beta, p.tokens * p.householder, {p.heads_o}, p, p.beta));
    TILEGATE_RETURN_IF_ERROR(check_factor_dtype(beta, p));
    p.erase = vector_factors ? EraseKind::kVector : EraseKind::kScalar;
    p.beta_is_logit = options.beta_is_logit;
  }
  if (!vector_factors) return reject_for_op(w, p.rule);
  p.write = WriteKind::kOne;
  if (!w.view.present()) return {};
  TILEGATE_RETURN_IF_ERROR(fill_rows(w, p.tokens, {p.heads_o, p.dim_v}, p, p.w));
  TILEGATE_RETURN_IF_ERROR(check_factor_dtype(w, p));
  p.write = WriteKind::kVector;
  return {};
}

}  // namespace

Result<Operation> normalise_linear(DeltaRule rule, const DeltaRuleArgs& args,
                                   const DeltaRuleOptions& options) {
  LinearProblem p;
  TILEGATE_RETURN_IF_ERROR(fill_options(rule, options, p));
  TILEGATE_RETURN_IF_ERROR(fill_query(args, options, p));
  TILEGATE_RETURN_IF_ERROR(fill_sequences(args, options, p));
  TILEGATE_RETURN_IF_ERROR(fill_keys_values(args, p));
  TILEGATE_RETURN_IF_ERROR(fill_gates(args, options, p));
  TILEGATE_RETURN_IF_ERROR(fill_states(args, options, p));
  TILEGATE_RETURN_IF_ERROR(fill_checkpoints(args, options, p));
  const bool declared = options.max_seqlen > 0 && p.uniform_len < 0;
  const std::int64_t columns = declared ? options.max_seqlen : p.tokens;
  TILEGATE_RETURN_IF_ERROR(fill_speculation(args, columns, p));
  return Operation(p);
}

}  // namespace tilegate
