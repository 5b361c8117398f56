// SPDX-License-Identifier: Apache-2.0
// The operations: which tensors and options each takes, in order.
#include "calls.h"

#include <optional>
#include <type_traits>
#include <utility>

namespace tilegate::python {
namespace {

template <class Field>
struct ValueOf {
  using type = Field;
};
template <class T>
struct ValueOf<std::optional<T>> {
  using type = T;
};

template <class Options, auto kField>
void read_option(ArgumentReader& in, Options& options) {
  auto& field = options.*kField;
  field = in.value<typename ValueOf<std::remove_reference_t<decltype(field)>>::type>();
}

// The rest of the arguments: (number, value) of each option that is not the default. Its number is
// its place here, as in python/tilegate/_calls.py.
template <class Options, auto... kFields>
Options read_options(ArgumentReader& in) {
  static constexpr void (*kReaders[])(ArgumentReader&,
                                      Options&) = {read_option<Options, kFields>...};
  Options options;
  while (!in.done()) kReaders[in.value<std::int64_t>()](in, options);
  return options;
}

AttentionOptions attention_options(ArgumentReader& in) {
  using O = AttentionOptions;
  return read_options<O, &O::scale, &O::causal, &O::window_left, &O::window_right,
                      &O::logits_soft_cap, &O::lse_base, &O::kv_layout, &O::q_len_per_req,
                      &O::max_qo_len, &O::max_kv_len, &O::fixed_split_size, &O::disable_split_kv,
                      &O::batch_invariant, &O::backend>(in);
}

DeltaRuleOptions delta_options(ArgumentReader& in) {
  using O = DeltaRuleOptions;
  return read_options<O, &O::scale, &O::use_qk_l2norm, &O::gate_domain, &O::use_gate_in_kernel,
                      &O::lower_bound, &O::beta_is_logit, &O::output_final_state,
                      &O::num_householder, &O::checkpoint_every_n_tokens, &O::checkpoint_position,
                      &O::disable_state_update, &O::use_cp, &O::max_seqlen, &O::batch_invariant,
                      &O::backend>(in);
}

template <class AttentionArgs>
Result<Problem> problem_of(const AttentionArgs& args, ArgumentReader& in) {
  return describe(args, attention_options(in));
}
Result<Problem> problem_of(const AppendPagedKvArgs& args, ArgumentReader& in) {
  using O = AppendOptions;
  return describe(args, read_options<O, &O::kv_layout, &O::backend>(in));
}
Result<Problem> problem_of(const MergeStatesArgs& args, ArgumentReader& in) {
  return describe(args, read_options<MergeOptions, &MergeOptions::backend>(in));
}
Result<Problem> problem_of(const DeltaRuleArgs& args, ArgumentReader& in) {
  const auto rule = in.value<DeltaRule>();
  return describe(rule, args, delta_options(in));
}
Result<Problem> problem_of(const CommitArgs& args, ArgumentReader& in) {
  using O = CommitOptions;
  return describe(args, read_options<O, &O::num_householder, &O::backend>(in));
}

void read_table(ArgumentReader& in, PageTable& table) {
  using T = PageTable;
  static constexpr TensorView T::*kFields[] = {&T::kv_indptr, &T::kv_indices, &T::kv_last_page_len,
                                               &T::block_tables, &T::kv_lens};
  in.tensors(table, kFields);
}

void read_fields(ArgumentReader& in, PrefillRaggedArgs& args) {
  using A = PrefillRaggedArgs;
  static constexpr TensorView A::*kFields[] = {
      &A::q,         &A::k,     &A::v,           &A::qo_indptr,
      &A::kv_indptr, &A::sinks, &A::custom_mask, &A::packed_custom_mask,
      &A::o,         &A::lse};
  in.tensors(args, kFields);
}

void read_fields(ArgumentReader& in, PrefillPagedArgs& args) {
  using A = PrefillPagedArgs;
  static constexpr TensorView A::*kFields[] = {
      &A::q,         &A::k_cache, &A::v_cache,     &A::kv_cache,
      &A::qo_indptr, &A::sinks,   &A::custom_mask, &A::packed_custom_mask,
      &A::o,         &A::lse};
  in.tensors(args, kFields);
  read_table(in, args.table);
}

void read_fields(ArgumentReader& in, DecodePagedArgs& args) {
  using A = DecodePagedArgs;
  static constexpr TensorView A::*kFields[] = {&A::q,
                                               &A::k_cache,
                                               &A::v_cache,
                                               &A::kv_cache,
                                               &A::sinks,
                                               &A::custom_mask,
                                               &A::packed_custom_mask,
                                               &A::o,
                                               &A::lse};
  in.tensors(args, kFields);
  read_table(in, args.table);
}

void read_fields(ArgumentReader& in, AppendPagedKvArgs& args) {
  using A = AppendPagedKvArgs;
  static constexpr TensorView A::*kFields[] = {
      &A::k, &A::v, &A::batch_indices, &A::positions, &A::k_cache, &A::v_cache, &A::kv_cache};
  in.tensors(args, kFields);
  read_table(in, args.table);
}

void read_fields(ArgumentReader& in, MergeStatesArgs& args) {
  using A = MergeStatesArgs;
  static constexpr TensorView A::*kFields[] = {&A::v, &A::s, &A::o, &A::lse};
  in.tensors(args, kFields);
}

void read_fields(ArgumentReader& in, DeltaRuleArgs& args) {
  using A = DeltaRuleArgs;
  static constexpr TensorView A::*kFields[] = {&A::q,
                                               &A::k,
                                               &A::v,
                                               &A::a,
                                               &A::b,
                                               &A::A_log,
                                               &A::dt_bias,
                                               &A::state_pool,
                                               &A::state_indices,
                                               &A::output_state_indices,
                                               &A::has_initial_state,
                                               &A::state_slots,
                                               &A::num_accepted_tokens,
                                               &A::record_k,
                                               &A::record_d,
                                               &A::record_decay,
                                               &A::o,
                                               &A::g,
                                               &A::beta,
                                               &A::w,
                                               &A::cu_seqlens,
                                               &A::initial_state,
                                               &A::output_state,
                                               &A::output_state_pool,
                                               &A::state_checkpoints,
                                               &A::checkpoint_cu_starts,
                                               &A::checkpoint_state_indices};
  in.tensors(args, kFields);
}

void read_fields(ArgumentReader& in, CommitArgs& args) {
  using A = CommitArgs;
  static constexpr TensorView A::*kFields[] = {&A::state_pool, &A::state_indices, &A::record_k,
                                               &A::record_d,   &A::record_decay,  &A::accepted};
  in.tensors(args, kFields);
}

template <class Args>
const TensorView& leading_tensor(const Args& args) {
  return args.q;
}
const TensorView& leading_tensor(const AppendPagedKvArgs& args) { return args.k; }
const TensorView& leading_tensor(const MergeStatesArgs& args) { return args.v; }
const TensorView& leading_tensor(const CommitArgs& args) { return args.state_pool; }

template <class Args>
void read_as(ArgumentReader& in, CallArgs& call) {
  read_fields(in, call.emplace<Args>());
}

}  // namespace

CallArgs read_args(ArgumentReader& in) {
  static constexpr void (*kReaders[])(ArgumentReader&, CallArgs&) = {
      read_as<PrefillRaggedArgs>, read_as<PrefillPagedArgs>, read_as<DecodePagedArgs>,
      read_as<AppendPagedKvArgs>, read_as<MergeStatesArgs>,  read_as<DeltaRuleArgs>,
      read_as<CommitArgs>};
  CallArgs args;
  kReaders[in.value<std::int64_t>()](in, args);
  return args;
}

Device device_of(const CallArgs& args) {
  return std::visit([](const auto& own) { return leading_tensor(own).device; }, args);
}

Call read_call(ArgumentReader& in) {
  CallArgs args = read_args(in);
  Result<Problem> problem = std::visit([&](const auto& own) { return problem_of(own, in); }, args);
  return {std::move(args), std::move(problem)};
}

}  // namespace tilegate::python
