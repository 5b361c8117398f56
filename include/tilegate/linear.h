// SPDX-License-Identifier: Apache-2.0
// The delta-rule family (GDN, GDN-2, GDP, KDA): arguments and options. Formula: docs/linear.md.
//
//   S <- S * decay_t;  d = write_t * v_t - S (erase_t * k_t);  S <- S + d k_t^T;  o = scale * S q_t
//
// S is [V, K] for every sequence and state head, fp32 arithmetic. HO = max(Hq, Hv) state heads.
// Packed layout: [T, H, D] with cu_seqlens [N + 1]; a leading dimension of 1 is accepted. Without
// cu_seqlens a rank-3 call is one sequence and a rank-4 call [B, T, H, D] is B sequences of T.
#pragma once

#include <cstdint>
#include <optional>

#include "tilegate/attention.h"
#include "tilegate/tensor.h"

namespace tilegate {

enum class DeltaRule : std::uint8_t {
  kGatedDeltaRule,        // GDN: chunk_gated_delta_rule
  kGatedDeltaRule2,       // GDN-2: chunk_gated_delta_rule2
  kGatedDeltaProduct,     // GDP: chunk_gated_delta_product
  kKda,                   // KDA: recurrent_kda
  kGatedDeltaRuleDecode,  // gated_delta_rule_decode: raw a, b gates, q k v [B, T, H, D]
};

enum class GateDomain : std::uint8_t { kDefault, kLinear, kLog };  // default: the op's own
enum class CheckpointPosition : std::uint8_t { kAfter, kBefore };
enum class UseCp : std::uint8_t { kAuto, kTrue, kFalse };

struct DeltaRuleOptions {
  std::optional<double> scale;                    // absent: 1 / sqrt(K)
  std::optional<bool> use_qk_l2norm;              // absent: false, for gated_delta_rule_decode true
  GateDomain gate_domain = GateDomain::kDefault;  // GDN, GDP: linear; GDN-2, KDA: natural log
  bool use_gate_in_kernel = false;                // KDA: g is raw, activated with A_log and dt_bias
  std::optional<double> lower_bound;  // KDA raw gates: lb * sigmoid(exp(A_log) (g + dt_bias))
  bool beta_is_logit = false;         // KDA: beta passes through a sigmoid
  bool output_final_state = false;    // write output_state
  std::int64_t num_householder = 1;   // GDP: k, v, beta rows a token
  std::int64_t checkpoint_every_n_tokens = 0;  // a multiple of 16; 0: no checkpoints
  CheckpointPosition checkpoint_position = CheckpointPosition::kAfter;
  bool disable_state_update = false;  // verify: read the state, write none
  UseCp use_cp = UseCp::kAuto;
  std::int64_t max_seqlen = 0;  // declared upper bound of tokens a sequence; 0: T
  bool batch_invariant = false;
  Backend backend = Backend::kAuto;
};

struct DeltaRuleArgs {
  TensorView q;        // [T, Hq, K] fp16 | bf16 | fp32
  TensorView k;        // [T * n, Hk, K]
  TensorView v;        // [T * n, Hv, V]
  TensorView g;        // optional gate: GDN, GDP [T, HO]; GDN-2, KDA [T, HO, K]; fp32 | bf16 | fp16
  TensorView beta;     // optional: GDN, KDA [T, HO]; GDP [T * n, HO]; GDN-2 [T, HO, K]
  TensorView w;        // GDN-2 optional [T, HO, V]
  TensorView a;        // gated_delta_rule_decode [B, T, HO]
  TensorView b;        // gated_delta_rule_decode [B, T, HO]
  TensorView A_log;    // fp32 [HO] (KDA also [Hq])
  TensorView dt_bias;  // fp32 | bf16; decode [HO]; KDA [HO, K] or [Hq, K]
  TensorView cu_seqlens;  // [N + 1] int32 | int64, tokens

  TensorView initial_state;         // optional [N, HO, V, K] fp32 | bf16 | fp16
  TensorView output_state;          // out [N, HO, V, K], written when output_final_state
  TensorView state_pool;            // in and out [P, HO, V, K]; excludes initial_state
  TensorView output_state_pool;     // optional: where states are written; absent: state_pool
  TensorView state_indices;         // [N] slot to read; < 0 skips the sequence
  TensorView output_state_indices;  // optional [N] slot to write; < 0: not stored
  TensorView has_initial_state;     // optional [N] u8 | bool; 0 starts from zero

  TensorView state_checkpoints;         // out [rows, HO, V, K]
  TensorView checkpoint_cu_starts;      // [N + 1] (or [N]) first row of each sequence
  TensorView checkpoint_state_indices;  // optional [rows] destination of row r; < 0 skips

  TensorView state_slots;          // optional [N, T] slot for the state after each token
  TensorView num_accepted_tokens;  // optional int32 [N], accepted tokens of the previous step
  TensorView record_k;             // optional out fp32 [N, T * n, Hk, K], keys as used
  TensorView record_d;             // optional out fp32 [N, T * n, HO, V]
  TensorView record_decay;         // optional out fp32 [N, T, HO] or [N, T, HO, K], natural log

  TensorView o;  // out [T, HO, V]; rows past the last offset stay untouched
};

// Advances pool slots by the first accepted[i] tokens of a replay record.
struct CommitArgs {
  TensorView state_pool;     // in and out [P, HO, V, K]
  TensorView state_indices;  // [N]; < 0 skips
  TensorView record_k;       // [N, T * n, Hk, K] fp32
  TensorView record_d;       // [N, T * n, HO, V] fp32
  TensorView record_decay;   // [N, T, HO] or [N, T, HO, K] fp32, natural log
  TensorView accepted;       // [N] int32 | int64, 0..T
};

struct CommitOptions {
  std::int64_t num_householder = 1;
  Backend backend = Backend::kAuto;
};

}  // namespace tilegate
