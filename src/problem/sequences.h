// SPDX-License-Identifier: Apache-2.0
// Where the tokens and the states of one sequence of a LinearProblem live, read from index tensors
// in host memory. These few rules are the meaning of slots, skips, checkpoints and accepted counts:
// every host backend and the value checks use them.
//
// A sequence is skipped (output rows zero, nothing read, nothing written: no state, checkpoint,
// slot or record) when its read_index is negative or when the row that it would read is negative.
#pragma once

#include <cstdint>

#include "core/element.h"
#include "problem/linear.h"

namespace tilegate {

inline constexpr std::int64_t kNoRow = -1;

// Index of sequence i in the leading dimension of q, k, v, o, g, beta and w.
inline std::int64_t seq_batch(const LinearProblem& p, std::int64_t i) {
  return p.uniform_len >= 0 ? i : 0;
}

// First token of sequence i in dimension 1 (k, v, beta rows: times householder).
inline std::int64_t seq_begin(const LinearProblem& p, std::int64_t i) {
  return p.uniform_len >= 0 ? 0 : index_at(p.cu_seqlens, i);
}

// Tokens of sequence i.
inline std::int64_t seq_len(const LinearProblem& p, std::int64_t i) {
  if (p.uniform_len >= 0) return p.uniform_len;
  return index_at(p.cu_seqlens, i + 1) - index_at(p.cu_seqlens, i);
}

// Row of state_in that holds the state before the first token; kNoRow: the sequence is skipped.
// n = num_accepted tokens of the previous step: its last accepted state is in column n - 1 of
// state_slots; with n = 0 the state before that step, read_index, is still the right one.
inline std::int64_t read_row(const LinearProblem& p, std::int64_t i) {
  std::int64_t row = i;
  if (p.read_index.present()) row = index_at(p.read_index, i);
  if (row < 0 || !p.num_accepted.present()) return row < 0 ? kNoRow : row;
  const std::int64_t accepted = index_at(p.num_accepted, i);
  if (accepted > 0) row = index_at(p.state_slots, i, accepted - 1);
  if (accepted == 0 && !p.read_index.present()) row = index_at(p.state_slots, i, 0);
  return row < 0 ? kNoRow : row;
}

inline bool is_skipped(const LinearProblem& p, std::int64_t i) { return read_row(p, i) == kNoRow; }

// False: the sequence starts from zero and its row of state_in, which may hold anything, is not
// read.
inline bool starts_from_state(const LinearProblem& p, std::int64_t i) {
  return p.state_in.present() && (!p.has_initial.present() || flag_at(p.has_initial, i));
}

// Row of state_out for the state after the last token; kNoRow: it is not stored.
inline std::int64_t write_row(const LinearProblem& p, std::int64_t i) {
  if (!p.store_final || is_skipped(p, i)) return kNoRow;
  std::int64_t row = i;
  if (p.write_index.present()) {
    row = index_at(p.write_index, i);
  } else if (p.read_index.present()) {
    row = index_at(p.read_index, i);
  }
  return row < 0 ? kNoRow : row;
}

// Row of state_out for the state after token t of sequence i; kNoRow: it is not stored.
inline std::int64_t slot_row(const LinearProblem& p, std::int64_t i, std::int64_t t) {
  if (!p.state_slots.present() || is_skipped(p, i)) return kNoRow;
  const std::int64_t row = index_at(p.state_slots, i, t);
  return row < 0 ? kNoRow : row;
}

// Checkpoints of a sequence of `len` tokens: number j is the state before or after its tokens
// [j * every, (j + 1) * every).
inline std::int64_t num_checkpoints(const LinearProblem& p, std::int64_t len) {
  if (p.checkpoint_every <= 0) return 0;
  const bool before = p.checkpoint_position == CheckpointPosition::kBefore;
  return len / p.checkpoint_every + (before && len % p.checkpoint_every != 0 ? 1 : 0);
}

// Row of checkpoints for number j of sequence i; kNoRow: it is not stored.
inline std::int64_t checkpoint_row(const LinearProblem& p, std::int64_t i, std::int64_t j) {
  if (is_skipped(p, i)) return kNoRow;
  std::int64_t row = index_at(p.checkpoint_starts, i) + j;
  if (p.checkpoint_rows.present()) row = index_at(p.checkpoint_rows, row);
  return row < 0 ? kNoRow : row;
}

// Element offset of [a, b, c, 0] in a view of rank 4, of [a, b, c] in one of rank 3.
inline std::int64_t offset_of(const TensorView& view, std::int64_t a, std::int64_t b,
                              std::int64_t c) {
  return a * view.strides[0] + b * view.strides[1] + c * view.strides[2];
}

}  // namespace tilegate
