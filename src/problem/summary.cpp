// SPDX-License-Identifier: Apache-2.0
// One line that names an operation and its shape.
#include <fmt/format.h>

#include "problem/problem.h"

namespace tilegate {
namespace {

std::string_view name_of(AttentionOp op) {
  switch (op) {
    case AttentionOp::kPrefillRagged:
      return "batch_prefill_ragged";
    case AttentionOp::kPrefillPaged:
      return "batch_prefill_paged";
    case AttentionOp::kDecodePaged:
      return "batch_decode_paged";
  }
  return "attention";
}

std::string dims(std::int64_t a, std::int64_t b) {
  return a == b ? fmt::format("D{}", a) : fmt::format("D{}/{}", a, b);
}

struct Summary {
  std::string operator()(const AttentionProblem& p) const {
    return fmt::format("{} {} B{} Tq{} H{}/{} {}{}", name_of(p.op), to_string(p.dtype), p.batch,
                       p.total_q, p.heads_q, p.heads_kv, dims(p.dim_qk, p.dim_v),
                       p.paged() ? fmt::format(" page{}", p.page_size) : "");
  }
  std::string operator()(const AppendProblem& p) const {
    return fmt::format("append_paged_kv {} T{} B{} H{} {} page{}", to_string(p.dtype), p.tokens,
                       p.batch, p.heads_kv, dims(p.dim_k, p.dim_v), p.page_size);
  }
  std::string operator()(const MergeProblem& p) const {
    return fmt::format("merge_states {} N{} P{} H{} D{}", to_string(p.dtype), p.rows, p.parts,
                       p.heads, p.dim);
  }
  std::string operator()(const LinearProblem& p) const {
    return fmt::format("{} {} N{} T{} H{}/{}/{} {}{}", call_name(p.rule), to_string(p.dtype),
                       p.num_seqs, p.tokens, p.heads_q, p.heads_k, p.heads_v,
                       dims(p.dim_k, p.dim_v),
                       p.householder > 1 ? fmt::format(" n{}", p.householder) : "");
  }
  std::string operator()(const CommitProblem& p) const {
    return fmt::format("commit N{} T{} H{}/{} {}", p.num_seqs, p.tokens, p.heads_k, p.heads_o,
                       dims(p.dim_k, p.dim_v));
  }
};

}  // namespace

std::string_view call_name(DeltaRule rule) {
  switch (rule) {
    case DeltaRule::kGatedDeltaRule:
      return "chunk_gated_delta_rule";
    case DeltaRule::kGatedDeltaRule2:
      return "chunk_gated_delta_rule2";
    case DeltaRule::kGatedDeltaProduct:
      return "chunk_gated_delta_product";
    case DeltaRule::kKda:
      return "recurrent_kda";
    case DeltaRule::kGatedDeltaRuleDecode:
      return "gated_delta_rule_decode";
  }
  return "delta_rule";
}

std::string summary(const Operation& op) { return std::visit(Summary{}, op); }

}  // namespace tilegate
