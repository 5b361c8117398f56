// SPDX-License-Identifier: Apache-2.0
// The table behind op_table.h: one row an operation.
#include "cli/case/op_table.h"

#include <algorithm>
#include <array>

namespace tilegate::cli {
namespace {

using Names = std::span<const std::string_view>;

constexpr std::string_view kRaggedTensors[] = {"q", "k", "v", "qo_indptr", "kv_indptr"};
constexpr std::string_view kPagedTensors[] = {"q", "k_cache", "v_cache", "qo_indptr"};
constexpr std::string_view kDecodeTensors[] = {"q", "k_cache", "v_cache"};
constexpr std::string_view kMergeTensors[] = {"v", "s"};
constexpr std::string_view kDeltaTensors[] = {"q", "k", "v", "cu_seqlens"};
constexpr std::string_view kDeltaDecodeTensors[] = {
    "q", "k", "v", "a", "b", "A_log", "dt_bias", "state_pool", "state_indices"};

constexpr std::string_view kRaggedOptional[] = {"sinks", "custom_mask"};
constexpr std::string_view kPagedOptional[] = {"block_tables",    "kv_lens", "kv_indptr",
                                               "kv_indices",      "sinks",   "custom_mask",
                                               "kv_last_page_len"};
constexpr std::string_view kDeltaOptional[] = {
    "g",          "beta",          "initial_state",       "has_initial_state",
    "state_pool", "state_indices", "checkpoint_cu_starts"};
constexpr std::string_view kDelta2Optional[] = {
    "g",          "beta",          "initial_state",        "has_initial_state",
    "state_pool", "state_indices", "checkpoint_cu_starts", "w"};
constexpr std::string_view kKdaOptional[] = {
    "g",          "beta",          "initial_state",        "has_initial_state",
    "state_pool", "state_indices", "checkpoint_cu_starts", "A_log",
    "dt_bias"};
constexpr std::string_view kDeltaDecodeOptional[] = {"has_initial_state"};

constexpr ParamSpec kRaggedParams[] = {
    {"scale", ParamType::kNumber},           {"causal", ParamType::kBool},
    {"window_left", ParamType::kInteger},    {"window_right", ParamType::kInteger},
    {"logits_soft_cap", ParamType::kNumber}, {"return_lse", ParamType::kBool}};
constexpr ParamSpec kPagedParams[] = {
    {"scale", ParamType::kNumber},           {"causal", ParamType::kBool},
    {"window_left", ParamType::kInteger},    {"window_right", ParamType::kInteger},
    {"logits_soft_cap", ParamType::kNumber}, {"return_lse", ParamType::kBool},
    {"kv_layout", ParamType::kLayout},       {"page_size", ParamType::kInteger}};
constexpr ParamSpec kDecodeParams[] = {
    {"scale", ParamType::kNumber},           {"causal", ParamType::kBool},
    {"window_left", ParamType::kInteger},    {"window_right", ParamType::kInteger},
    {"logits_soft_cap", ParamType::kNumber}, {"return_lse", ParamType::kBool},
    {"kv_layout", ParamType::kLayout},       {"page_size", ParamType::kInteger},
    {"q_len_per_req", ParamType::kInteger}};
constexpr ParamSpec kDeltaParams[] = {{"scale", ParamType::kNumber},
                                      {"use_qk_l2norm_in_kernel", ParamType::kBool},
                                      {"output_final_state", ParamType::kBool},
                                      {"checkpoint_every_n_tokens", ParamType::kInteger},
                                      {"checkpoint_position", ParamType::kPosition},
                                      {"use_cp", ParamType::kUseCp}};
constexpr ParamSpec kProductParams[] = {{"scale", ParamType::kNumber},
                                        {"use_qk_l2norm_in_kernel", ParamType::kBool},
                                        {"output_final_state", ParamType::kBool},
                                        {"checkpoint_every_n_tokens", ParamType::kInteger},
                                        {"checkpoint_position", ParamType::kPosition},
                                        {"use_cp", ParamType::kUseCp},
                                        {"num_householder", ParamType::kInteger}};
constexpr ParamSpec kKdaParams[] = {{"scale", ParamType::kNumber},
                                    {"use_qk_l2norm_in_kernel", ParamType::kBool},
                                    {"output_final_state", ParamType::kBool},
                                    {"checkpoint_every_n_tokens", ParamType::kInteger},
                                    {"checkpoint_position", ParamType::kPosition},
                                    {"use_cp", ParamType::kUseCp},
                                    {"use_gate_in_kernel", ParamType::kBool},
                                    {"lower_bound", ParamType::kNumber},
                                    {"beta_is_logit", ParamType::kBool}};
constexpr ParamSpec kDeltaDecodeParams[] = {{"scale", ParamType::kNumber},
                                            {"use_qk_l2norm", ParamType::kBool}};

constexpr DeltaRule kNoRule = DeltaRule::kGatedDeltaRule;

constexpr std::array<OpSpec, 9> kOps = {{
    {"batch_prefill_ragged", OpKind::kPrefillRagged, kNoRule, kRaggedTensors, kRaggedOptional,
     kRaggedParams},
    {"batch_prefill_paged", OpKind::kPrefillPaged, kNoRule, kPagedTensors, kPagedOptional,
     kPagedParams},
    {"batch_decode_paged", OpKind::kDecodePaged, kNoRule, kDecodeTensors, kPagedOptional,
     kDecodeParams},
    {"merge_states", OpKind::kMergeStates, kNoRule, kMergeTensors, {}, {}},
    {"chunk_gated_delta_rule", OpKind::kDeltaRule, DeltaRule::kGatedDeltaRule, kDeltaTensors,
     kDeltaOptional, kDeltaParams},
    {"chunk_gated_delta_rule2", OpKind::kDeltaRule, DeltaRule::kGatedDeltaRule2, kDeltaTensors,
     kDelta2Optional, kDeltaParams},
    {"chunk_gated_delta_product", OpKind::kDeltaRule, DeltaRule::kGatedDeltaProduct, kDeltaTensors,
     kDeltaOptional, kProductParams},
    {"recurrent_kda", OpKind::kDeltaRule, DeltaRule::kKda, kDeltaTensors, kKdaOptional, kKdaParams},
    {"gated_delta_rule_decode", OpKind::kDeltaRule, DeltaRule::kGatedDeltaRuleDecode,
     kDeltaDecodeTensors, kDeltaDecodeOptional, kDeltaDecodeParams},
}};

}  // namespace

const OpSpec* find_op(std::string_view name) {
  const auto* found =
      std::find_if(kOps.begin(), kOps.end(), [&](const OpSpec& op) { return op.name == name; });
  return found == kOps.end() ? nullptr : found;
}

std::string op_names() {
  std::string text;
  for (const OpSpec& op : kOps) {
    if (!text.empty()) text += ", ";
    text += op.name;
  }
  return text;
}

std::string_view wanted(ParamType type) {
  switch (type) {
    case ParamType::kNumber:
      return "a number";
    case ParamType::kInteger:
      return "an integer";
    case ParamType::kBool:
      return "true or false";
    case ParamType::kLayout:
      return "\"NHD\" or \"HND\"";
    case ParamType::kPosition:
      return "\"after\" or \"before\"";
    case ParamType::kUseCp:
      return "\"auto\", true or false";
  }
  return "";
}

}  // namespace tilegate::cli
