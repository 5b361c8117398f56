// SPDX-License-Identifier: Apache-2.0
// Parameters of the delta-rule decode kernels (decode.cuh, commit.cuh). Host-safe.
#pragma once

#include <cstdint>

#include "kernel/tile/element_params.h"

namespace tilegate::kernel {

using tile::ElementKind;
using tile::IndexArray;

// A lane owns eight columns (key channels) of a state row, in two groups of four, and K / 8 lanes
// share a row.
inline constexpr int kLaneColumns = 8;

inline constexpr int kDeltaMaxThreads = 128;
inline constexpr int kCommitThreads = 128;
inline constexpr int kCommitPasses = 4;  // rows that a thread holds

// The head of a tensor for a state head, without a division: head * factor >> 32, where factor is
// 2^32 / (state heads a head), rounded up (exact up to kMaxHeads); 0: the head itself.
inline constexpr int kMaxHeads = 65535;
struct HeadMap {
  std::uint32_t factor = 0;
};

// Values of tokens: [batch, rows, heads, inner], innermost contiguous. Strides in bytes; the host
// keeps them within 32 bits, so that an address is three multiplications of 32 bits into 64.
struct TokenRows {
  void* data = nullptr;
  std::uint32_t batch = 0, row = 0, head = 0;
  ElementKind kind = ElementKind::kFp32;
  HeadMap heads;
};

// States: [slots, heads, V, K], K contiguous, strides in bytes. `data` is null when the tensor is
// absent.
struct StateRows {
  void* data = nullptr;
  std::int64_t slot = 0, head = 0, row = 0;
  ElementKind kind = ElementKind::kFp32;
  int aligned = 0;  // groups of four elements are aligned to their size
};

// Where sequences and their states live; all arrays are read on the device.
struct SequenceParams {
  IndexArray cu_seqlens;  // [num_seqs + 1]; absent: every sequence has uniform_len tokens
  IndexArray read_index;  // [num_seqs]
  IndexArray write_index;
  IndexArray num_accepted;
  IndexArray state_slots;                     // [num_seqs, T]; stride along T
  std::int64_t slots_row = 0;                 // bytes between sequences
  const std::uint8_t* has_initial = nullptr;  // [num_seqs]
  std::int64_t has_initial_stride = 1;
  int uniform_len = 0;
  int store_final = 0;
  int plain = 0;  // at most read_index and uniform_len are given
};

enum class GateForm : int { kNone, kLinear, kLog, kSoftplus, kLowerBound };
enum class EraseForm : int { kOne, kScalar, kVector };
enum class WriteForm : int { kErase, kOne, kVector };

struct GateParams {
  TokenRows g;                   // scalar: one element a head; channel: K
  const float* a_log = nullptr;  // [heads]
  std::uint32_t a_log_step = 0;  // bytes between heads
  HeadMap a_log_heads;
  const void* dt_bias = nullptr;  // [heads] or [heads, K]; may be null
  std::uint32_t dt_bias_step = 0;
  HeadMap dt_bias_heads;
  ElementKind dt_bias_kind = ElementKind::kFp32;
  GateForm form = GateForm::kNone;
  int per_channel = 0;
  float lower_bound = 0.0f;
};

// What commit needs to take the same steps again. fp32.
struct RecordParams {
  float* k = nullptr;                             // [seqs, T * n, heads_k, K], keys as used
  std::int64_t k_seq = 0, k_row = 0, k_head = 0;  //
  float* d = nullptr;                             // [seqs, T * n, heads_o, V]
  std::int64_t d_seq = 0, d_row = 0, d_head = 0;  //
  float* decay = nullptr;                         // [seqs, T, heads_o] or [.., K], natural log
  std::int64_t decay_seq = 0, decay_row = 0, decay_head = 0;
};

struct CheckpointParams {
  StateRows states;   // [rows, heads, V, K]
  IndexArray starts;  // first row of a sequence
  IndexArray rows;    // destination of row r; may be absent
  int every = 0;      // tokens; 0: none
  int before = 0;     // the state before a block of tokens, else after it
};

struct DeltaDecodeParams {
  TokenRows q, k, v, o;  // k, v: `householder` rows a token
  TokenRows beta;        // erase: one element a head, or K
  TokenRows w;           // write vector [.., V]
  GateParams gate;
  SequenceParams sequences;
  StateRows state_in;
  StateRows state_out;
  RecordParams record;
  CheckpointParams checkpoints;

  int num_seqs = 0;
  int heads_o = 0;
  int heads_per_key = 1;  // state heads that share a key head
  int dim_v = 0;
  int householder = 1;
  float scale = 1.0f;
  int l2norm = 0;
  EraseForm erase = EraseForm::kOne;
  WriteForm write = WriteForm::kErase;
  int beta_is_logit = 0;
  int stage_steps = 1;  // updates whose vectors are in shared memory together
  int tiles = 1;        // that a warp takes one after the other
};

struct CommitParams {
  StateRows state;
  IndexArray index;     // [num_seqs]; < 0 skips
  IndexArray accepted;  // [num_seqs]
  RecordParams record;
  int num_seqs = 0;
  int heads_o = 0;
  HeadMap key_heads;
  int dim_v = 0;
  int dim_k = 0;
  int householder = 1;
  int per_channel = 0;
};

}  // namespace tilegate::kernel
