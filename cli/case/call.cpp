// SPDX-License-Identifier: Apache-2.0
// Names of case files to fields of the public structs, one function a kind of call.
#include "cli/case/call.h"

#include <fmt/format.h>

namespace tilegate::cli {
namespace {

AttentionOptions attention_options(const Params& params, Backend backend) {
  AttentionOptions options;
  options.scale = params.number("scale");
  options.causal = params.flag("causal").value_or(false);
  options.window_left = params.integer("window_left").value_or(-1);
  options.window_right = params.integer("window_right").value_or(-1);
  options.logits_soft_cap = params.number("logits_soft_cap").value_or(0.0);
  options.kv_layout = params.text("kv_layout") == "HND" ? KvLayout::kHnd : KvLayout::kNhd;
  options.q_len_per_req = params.integer("q_len_per_req").value_or(1);
  options.backend = backend;
  return options;
}

UseCp use_cp(const Params& params) {
  const std::optional<bool> flag = params.flag("use_cp");
  if (!flag) return UseCp::kAuto;
  return *flag ? UseCp::kTrue : UseCp::kFalse;
}

DeltaRuleOptions delta_options(const Case& c, Backend backend) {
  const Params& params = c.params;
  const bool decode = c.op->rule == DeltaRule::kGatedDeltaRuleDecode;
  DeltaRuleOptions options;
  options.scale = params.number("scale");
  options.use_qk_l2norm = params.flag(decode ? "use_qk_l2norm" : "use_qk_l2norm_in_kernel");
  options.use_gate_in_kernel = params.flag("use_gate_in_kernel").value_or(false);
  options.lower_bound = params.number("lower_bound");
  options.beta_is_logit = params.flag("beta_is_logit").value_or(false);
  // A pool is written by being passed; there is no final_state beside it.
  options.output_final_state =
      params.flag("output_final_state").value_or(false) && !c.inputs.contains("state_pool");
  options.num_householder = params.integer("num_householder").value_or(1);
  options.checkpoint_every_n_tokens = params.integer("checkpoint_every_n_tokens").value_or(0);
  options.checkpoint_position = params.text("checkpoint_position") == "before"
                                    ? CheckpointPosition::kBefore
                                    : CheckpointPosition::kAfter;
  options.use_cp = use_cp(params);
  options.backend = backend;
  return options;
}

PageTable page_table(const Views& inputs) {
  PageTable table;
  table.kv_indptr = find_view(inputs, "kv_indptr");
  table.kv_indices = find_view(inputs, "kv_indices");
  table.kv_last_page_len = find_view(inputs, "kv_last_page_len");
  table.block_tables = find_view(inputs, "block_tables");
  table.kv_lens = find_view(inputs, "kv_lens");
  return table;
}

// What all attention calls have.
template <class Args>
Args attention_args(const Views& inputs, const Views& outputs) {
  Args args;
  args.q = find_view(inputs, "q");
  args.sinks = find_view(inputs, "sinks");
  args.custom_mask = find_view(inputs, "custom_mask");
  args.o = find_view(outputs, "o");
  args.lse = find_view(outputs, "lse");
  return args;
}

PrefillRaggedArgs ragged_args(const Views& inputs, const Views& outputs) {
  auto args = attention_args<PrefillRaggedArgs>(inputs, outputs);
  args.k = find_view(inputs, "k");
  args.v = find_view(inputs, "v");
  args.qo_indptr = find_view(inputs, "qo_indptr");
  args.kv_indptr = find_view(inputs, "kv_indptr");
  return args;
}

// PrefillPagedArgs or DecodePagedArgs.
template <class Args>
Args paged_args(const Views& inputs, const Views& outputs) {
  auto args = attention_args<Args>(inputs, outputs);
  args.k_cache = find_view(inputs, "k_cache");
  args.v_cache = find_view(inputs, "v_cache");
  args.table = page_table(inputs);
  return args;
}

MergeStatesArgs merge_args(const Views& inputs, const Views& outputs) {
  MergeStatesArgs args;
  args.v = find_view(inputs, "v");
  args.s = find_view(inputs, "s");
  args.o = find_view(outputs, "o");
  args.lse = find_view(outputs, "lse");
  return args;
}

DeltaRuleArgs delta_args(const Views& inputs, const Views& outputs) {
  DeltaRuleArgs args;
  args.q = find_view(inputs, "q");
  args.k = find_view(inputs, "k");
  args.v = find_view(inputs, "v");
  args.g = find_view(inputs, "g");
  args.beta = find_view(inputs, "beta");
  args.w = find_view(inputs, "w");
  args.a = find_view(inputs, "a");
  args.b = find_view(inputs, "b");
  args.A_log = find_view(inputs, "A_log");
  args.dt_bias = find_view(inputs, "dt_bias");
  args.cu_seqlens = find_view(inputs, "cu_seqlens");
  args.initial_state = find_view(inputs, "initial_state");
  args.output_state = find_view(outputs, "final_state");
  args.state_pool = find_view(outputs, "state_pool");
  args.state_indices = find_view(inputs, "state_indices");
  args.has_initial_state = find_view(inputs, "has_initial_state");
  args.state_checkpoints = find_view(outputs, "state_checkpoints");
  args.checkpoint_cu_starts = find_view(inputs, "checkpoint_cu_starts");
  args.o = find_view(outputs, "o");
  return args;
}

}  // namespace

Call make_call(const Case& c, const Views& inputs, const Views& outputs, Backend backend) {
  const AttentionOptions attention = attention_options(c.params, backend);
  switch (c.op->kind) {
    case OpKind::kPrefillRagged:
      return {ragged_args(inputs, outputs), attention, {}};
    case OpKind::kPrefillPaged: {
      PrefillPagedArgs args = paged_args<PrefillPagedArgs>(inputs, outputs);
      args.qo_indptr = find_view(inputs, "qo_indptr");
      return {args, attention, {}};
    }
    case OpKind::kDecodePaged:
      return {paged_args<DecodePagedArgs>(inputs, outputs), attention, {}};
    case OpKind::kMergeStates:
      return {merge_args(inputs, outputs), MergeOptions{backend}, {}};
    case OpKind::kDeltaRule:
      break;
  }
  return {delta_args(inputs, outputs), delta_options(c, backend), c.op->rule};
}

Result<Problem> describe_call(const Call& call) {
  if (const auto* args = std::get_if<PrefillRaggedArgs>(&call.args)) {
    return describe(*args, std::get<AttentionOptions>(call.options));
  }
  if (const auto* args = std::get_if<PrefillPagedArgs>(&call.args)) {
    return describe(*args, std::get<AttentionOptions>(call.options));
  }
  if (const auto* args = std::get_if<DecodePagedArgs>(&call.args)) {
    return describe(*args, std::get<AttentionOptions>(call.options));
  }
  if (const auto* args = std::get_if<MergeStatesArgs>(&call.args)) {
    return describe(*args, std::get<MergeOptions>(call.options));
  }
  return describe(call.rule, std::get<DeltaRuleArgs>(call.args),
                  std::get<DeltaRuleOptions>(call.options));
}

Status check_page_size(const Case& c) {
  const std::optional<std::int64_t> wanted = c.params.integer("page_size");
  if (!wanted) return Status();
  const TensorView cache = c.input("k_cache");
  if (cache.rank != 4) return Status();  // described as such later
  const bool hnd = c.params.text("kv_layout") == "HND";
  const std::int64_t actual = cache.shape[hnd ? 2 : 1];
  if (*wanted == actual) return Status();
  return Status(StatusCode::kInvalidArgument,
                fmt::format("page_size must be {} as in the {} k_cache, got {}", actual,
                            hnd ? "HND" : "NHD", *wanted));
}

}  // namespace tilegate::cli
