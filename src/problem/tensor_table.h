// SPDX-License-Identifier: Apache-2.0
// Every tensor of every operation by name: one table serves pointer removal, device checks and the
// comparison of a call with its plan.
#pragma once

#include <string_view>

#include "problem/attention.h"
#include "problem/linear.h"

namespace tilegate {

template <class Op>
struct TensorField {
  std::string_view name;
  TensorView Op::*field;
};

template <class Op>
struct TensorTable;

template <>
struct TensorTable<AttentionProblem> {
  using P = AttentionProblem;
  static constexpr TensorField<P> kFields[] = {
      {"q", &P::q},
      {"k", &P::k},
      {"v", &P::v},
      {"o", &P::o},
      {"lse", &P::lse},
      {"qo_indptr", &P::qo_indptr},
      {"kv_indptr", &P::kv_indptr},
      {"kv_indices", &P::kv_indices},
      {"kv_last_page_len", &P::kv_last_page_len},
      {"block_tables", &P::block_tables},
      {"kv_lens", &P::kv_lens},
      {"sinks", &P::sinks},
      {"custom_mask", &P::custom_mask},
      {"packed_custom_mask", &P::packed_custom_mask},
  };
};

// The argument that a tensor came from: k and v of a paged call lie in caches.
template <class Op>
std::string_view argument_name(const Op&, const TensorField<Op>& entry) {
  return entry.name;
}
inline std::string_view argument_name(const AttentionProblem& p,
                                      const TensorField<AttentionProblem>& entry) {
  if (p.op == AttentionOp::kPrefillRagged) return entry.name;
  if (entry.field == &AttentionProblem::k) return "k_cache";
  if (entry.field == &AttentionProblem::v) return "v_cache";
  return entry.name;
}

template <>
struct TensorTable<AppendProblem> {
  using P = AppendProblem;
  static constexpr TensorField<P> kFields[] = {
      {"k", &P::k},
      {"v", &P::v},
      {"k_cache", &P::k_cache},
      {"v_cache", &P::v_cache},
      {"batch_indices", &P::batch_indices},
      {"positions", &P::positions},
      {"kv_indptr", &P::kv_indptr},
      {"kv_indices", &P::kv_indices},
      {"kv_last_page_len", &P::kv_last_page_len},
      {"block_tables", &P::block_tables},
      {"kv_lens", &P::kv_lens},
  };
};

template <>
struct TensorTable<MergeProblem> {
  using P = MergeProblem;
  static constexpr TensorField<P> kFields[] = {
      {"v", &P::v}, {"s", &P::s}, {"o", &P::o}, {"lse", &P::lse}};
};

template <>
struct TensorTable<LinearProblem> {
  using P = LinearProblem;
  static constexpr TensorField<P> kFields[] = {
      {"q", &P::q},
      {"k", &P::k},
      {"v", &P::v},
      {"o", &P::o},
      {"g", &P::g},
      {"beta", &P::beta},
      {"w", &P::w},
      {"A_log", &P::a_log},
      {"dt_bias", &P::dt_bias},
      {"cu_seqlens", &P::cu_seqlens},
      {"initial_state", &P::state_in},
      {"output_state", &P::state_out},
      {"state_indices", &P::read_index},
      {"output_state_indices", &P::write_index},
      {"has_initial_state", &P::has_initial},
      {"state_checkpoints", &P::checkpoints},
      {"checkpoint_cu_starts", &P::checkpoint_starts},
      {"checkpoint_state_indices", &P::checkpoint_rows},
      {"state_slots", &P::state_slots},
      {"num_accepted_tokens", &P::num_accepted},
      {"record_k", &P::record_k},
      {"record_d", &P::record_d},
      {"record_decay", &P::record_decay},
  };
};

template <>
struct TensorTable<CommitProblem> {
  using P = CommitProblem;
  static constexpr TensorField<P> kFields[] = {
      {"state_pool", &P::state},  {"state_indices", &P::index},       {"record_k", &P::record_k},
      {"record_d", &P::record_d}, {"record_decay", &P::record_decay}, {"accepted", &P::accepted},
  };
};

}  // namespace tilegate
