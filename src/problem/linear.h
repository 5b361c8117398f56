// SPDX-License-Identifier: Apache-2.0
// A delta-rule call as plain data: one form for GDN, GDN-2, GDP, KDA and decode. In a Problem every
// data pointer is null; at launch the same struct carries the caller's pointers.
#pragma once

#include <cstdint>

#include "tilegate/linear.h"

namespace tilegate {

// How the stored gate becomes the decay alpha = exp(log_decay).
enum class GateKind : std::uint8_t {
  kNone,        // no decay
  kLinear,      // g is alpha in [0, 1]
  kLog,         // g is ln alpha <= 0
  kSoftplus,    // ln alpha = -exp(A_log) * softplus(g + dt_bias)
  kLowerBound,  // ln alpha = lower_bound * sigmoid(exp(A_log) * (g + dt_bias))
};

enum class EraseKind : std::uint8_t { kOne, kScalar, kVector };  // kVector: over K, on the key
enum class WriteKind : std::uint8_t { kErase, kOne, kVector };   // kErase: the erase scalar

struct LinearProblem {
  DeltaRule rule = DeltaRule::kGatedDeltaRule;
  DType dtype = DType::kBFloat16;  // of q, k, v and o
  std::int64_t num_seqs = 0;
  std::int64_t tokens = 0;        // rows of q: total (packed), or a sequence (uniform)
  std::int64_t uniform_len = -1;  // >= 0: every sequence has this many tokens, no cu_seqlens
  std::int64_t max_seqlen = 0;    // upper bound of tokens a sequence
  std::int64_t heads_q = 0;
  std::int64_t heads_k = 0;
  std::int64_t heads_v = 0;
  std::int64_t heads_o = 0;  // state heads: max(heads_q, heads_v)
  std::int64_t dim_k = 0;
  std::int64_t dim_v = 0;
  std::int64_t householder = 1;  // k, v, beta rows a token

  float scale = 1.0f;
  bool l2norm = false;
  GateKind gate = GateKind::kNone;
  bool gate_per_channel = false;  // g is [.., HO, K] instead of [.., HO]
  float lower_bound = 0.0f;
  EraseKind erase = EraseKind::kOne;
  WriteKind write = WriteKind::kErase;
  bool beta_is_logit = false;

  bool store_final = false;           // write state_out
  std::int64_t checkpoint_every = 0;  // tokens; 0: none
  CheckpointPosition checkpoint_position = CheckpointPosition::kAfter;
  UseCp use_cp = UseCp::kAuto;
  bool batch_invariant = false;
  Backend backend = Backend::kAuto;

  // Uniform: [num_seqs, tokens, heads, dim]. Packed: [1, total, heads, dim] with cu_seqlens.
  TensorView q;
  TensorView k;  // tokens * householder rows
  TensorView v;  // tokens * householder rows
  TensorView o;
  TensorView g;        // [.., tokens, HO] or [.., tokens, HO, K]
  TensorView beta;     // [.., tokens * householder, HO] or, EraseKind::kVector, [.., tokens, HO, K]
  TensorView w;        // [.., tokens, HO, V]
  TensorView a_log;    // [heads], head h reads h * heads / HO
  TensorView dt_bias;  // scalar gate [heads], channel gate [heads, K]; absent: 0
  TensorView cu_seqlens;

  // State rows are [slots, HO, V, K]. Sequence i reads row read_index[i] (or i) of state_in and
  // writes row write_index[i] (or its read row; or i) of state_out. state_in absent: zero.
  TensorView state_in;
  TensorView state_out;
  TensorView read_index;
  TensorView write_index;
  TensorView has_initial;        // 0: start from zero, state_in is not read
  TensorView checkpoints;        // [rows, HO, V, K]
  TensorView checkpoint_starts;  // [num_seqs] or [num_seqs + 1]
  TensorView checkpoint_rows;    // row r goes to checkpoint_rows[r]; < 0 skips
  // Speculation; T here is the declared bound of tokens a sequence (uniform: its length).
  // state_slots [num_seqs, T]: the state after token t goes to row state_slots[i, t] of state_out
  // (< 0 is not stored); then store_final holds only if the caller gave write_index.
  // num_accepted n >= 1 reads row state_slots[i, n - 1] of state_in; n = 0 reads read_index[i], or
  // state_slots[i, 0] without read_index. Either index negative skips the sequence.
  // Records: rows past a sequence's tokens and rows of skipped sequences stay untouched.
  TensorView state_slots;
  TensorView num_accepted;
  TensorView record_k;      // fp32 [num_seqs, T * n, Hk, K]
  TensorView record_d;      // fp32 [num_seqs, T * n, HO, V]
  TensorView record_decay;  // fp32 [num_seqs, T, HO] or [num_seqs, T, HO, K], natural log

  bool operator==(const LinearProblem&) const = default;
};

struct CommitProblem {
  std::int64_t num_seqs = 0;
  std::int64_t tokens = 0;  // T of the record
  std::int64_t heads_k = 0;
  std::int64_t heads_o = 0;
  std::int64_t dim_k = 0;
  std::int64_t dim_v = 0;
  std::int64_t householder = 1;
  bool gate_per_channel = false;
  Backend backend = Backend::kAuto;
  TensorView state;  // [slots, HO, V, K], in and out
  TensorView index;  // [num_seqs]; < 0 skips
  TensorView record_k;
  TensorView record_d;
  TensorView record_decay;
  TensorView accepted;
  bool operator==(const CommitProblem&) const = default;
};

}  // namespace tilegate
