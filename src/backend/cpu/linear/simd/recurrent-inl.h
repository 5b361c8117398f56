// SPDX-License-Identifier: Apache-2.0
// The recurrence token by token for some V rows of one (sequence, head): each state row is read
// once, takes every token and is written once. Rows are independent. Decode is bound by the
// traffic of the state; per-token slots, checkpoints and the replay record are written on the way.
#if defined(TILEGATE_CPU_LINEAR_RECURRENT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TILEGATE_CPU_LINEAR_RECURRENT_INL_H_
#undef TILEGATE_CPU_LINEAR_RECURRENT_INL_H_
#else
#define TILEGATE_CPU_LINEAR_RECURRENT_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "backend/cpu/linear/recurrent_buffers.h"
#include "backend/cpu/linear/simd/head_rows-inl.h"
#include "backend/cpu/linear/simd/record-inl.h"
#include "backend/cpu/linear/simd/state_panels-inl.h"
#include "backend/cpu/linear/simd/unroll.h"
#include "backend/cpu/linear/unit.h"

HWY_BEFORE_NAMESPACE();
namespace tilegate::cpu_linear {
namespace HWY_NAMESPACE {

struct Recurrence {
  const RecurrentUnit& unit;
  const LinearProblem& p;
  HeadView head;
  const RecurrentBuffers& b;
  std::int64_t rows = 0;  // V rows of this unit
  std::int64_t len = 0;   // tokens of the sequence
  StateSlice slice(const TensorView& view, std::int64_t slot) const {
    return {.view = view, .slot = slot, .head = unit.head, .begin = unit.row_begin, .count = rows};
  }
};

// Where the state goes after a sub-token, besides staying here.
struct Deposits {
  std::int64_t slot[kStepRows];
  std::int64_t checkpoint[kStepRows];
};

// S <- S d; y = w v - S e; S <- S + y k; o = S q, for kRows rows of the state.
template <int kRows>
HWY_INLINE void step_rows(const RecurrentBuffers& b, std::int64_t t, std::int64_t row) {
  const std::int64_t pitch = b.key_pitch;
  const float* decay = b.decay + t * pitch;
  const float* erase = b.erase + t * pitch;
  const float* key = b.keys + t * pitch;
  const float* query = b.query + t * pitch;
  float* state = b.state + row * pitch;
  Vec sum[kRows];
  TILEGATE_UNROLL(8)
  for (int r = 0; r < kRows; ++r) sum[r] = hn::Zero(F32());
  for (std::int64_t k = 0; k < pitch; k += kLanes) {
    const Vec d = load(decay + k);
    const Vec e = load(erase + k);
    TILEGATE_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      const Vec s = decayed(load(state + r * pitch + k), d);
      store(s, state + r * pitch + k);
      sum[r] = hn::MulAdd(s, e, sum[r]);
    }
  }
  Vec delta[kRows];
  TILEGATE_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    const float y = b.values[t * b.value_pitch + row + r] - sum_lanes(sum[r]);
    b.delta[t * b.value_pitch + row + r] = y;
    delta[r] = splat(y);
    sum[r] = hn::Zero(F32());
  }
  for (std::int64_t k = 0; k < pitch; k += kLanes) {
    const Vec write = load(key + k);
    const Vec q = load(query + k);
    TILEGATE_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      const Vec s = hn::MulAdd(delta[r], write, load(state + r * pitch + k));
      store(s, state + r * pitch + k);
      sum[r] = hn::MulAdd(s, q, sum[r]);
    }
  }
  TILEGATE_UNROLL(8)
  for (int r = 0; r < kRows; ++r) b.output[t * b.value_pitch + row + r] = sum_lanes(sum[r]);
}

HWY_INLINE void deposit_rows(const Recurrence& w, const Deposits& deposits, std::int64_t t,
                             std::int64_t row, std::int64_t count) {
  const std::int64_t slot = deposits.slot[t];
  const std::int64_t checkpoint = deposits.checkpoint[t];
  for (std::int64_t r = row; r < row + count && slot != kNoRow; ++r) {
    store_row(w.b.state + r * w.b.key_pitch, w.p.dim_k, w.p.state_out,
              w.slice(w.p.state_out, slot).row(r));
  }
  for (std::int64_t r = row; r < row + count && checkpoint != kNoRow; ++r) {
    store_row(w.b.state + r * w.b.key_pitch, w.p.dim_k, w.p.checkpoints,
              w.slice(w.p.checkpoints, checkpoint).row(r));
  }
}

// The vectors of sub-tokens [sub, sub + count).
HWY_INLINE void load_steps(const Recurrence& w, std::int64_t sub, std::int64_t count) {
  const RecurrentBuffers& b = w.b;
  const std::int64_t n = w.p.householder;
  for (std::int64_t i = 0; i < count; ++i) {
    key_row(w.head, sub + i, b.key_pitch, b.keys + i * b.key_pitch);
    erase_row(w.head, sub + i, b.key_pitch, b.keys + i * b.key_pitch, b.erase + i * b.key_pitch);
    float* query = b.query + i * b.key_pitch;
    const std::int64_t token = (sub + i) / n;
    const bool readout = (sub + i) % n == n - 1;
    if (readout) query_row(w.head, token, b.key_pitch, query);
    if (!readout) fill(query, b.key_pitch, 0.0f);
    float* row = b.decay + i * b.key_pitch;
    const bool gated = (sub + i) % n == 0 && w.p.gate != GateKind::kNone;
    if (gated && w.p.gate_per_channel) {
      decay_row(w.head, token, b.key_pitch, b.row, row);
    } else {
      const float stored =
          gated ? stored_gate(w.p, w.head.batch, w.head.first + token, w.unit.head) : 0.0f;
      fill(row, b.key_pitch, gated ? decay(w.head.gate, stored, w.head.gate.bias) : 1.0f);
    }
    value_row(w.head, sub + i, w.unit.row_begin, w.rows, round_up(w.rows, 16), b.row,
              b.values + i * b.value_pitch);
  }
}

HWY_INLINE std::int64_t checkpoint_after(const Recurrence& w, std::int64_t tokens) {
  const LinearProblem& p = w.p;
  if (p.checkpoint_every <= 0 || tokens % p.checkpoint_every != 0) return kNoRow;
  const bool before = p.checkpoint_position == CheckpointPosition::kBefore;
  const std::int64_t number = tokens / p.checkpoint_every - (before ? 0 : 1);
  if (number < 0 || number >= num_checkpoints(p, w.len)) return kNoRow;
  return checkpoint_row(p, w.unit.seq, number);
}

HWY_INLINE Deposits find_deposits(const Recurrence& w, std::int64_t sub, std::int64_t count) {
  Deposits deposits;
  const std::int64_t n = w.p.householder;
  for (std::int64_t i = 0; i < count; ++i) {
    const bool last = (sub + i) % n == n - 1;
    const std::int64_t token = (sub + i) / n;
    deposits.slot[i] = last ? slot_row(w.p, w.unit.seq, token) : kNoRow;
    deposits.checkpoint[i] = last ? checkpoint_after(w, token + 1) : kNoRow;
  }
  return deposits;
}

// The replay record of sub-tokens [sub, sub + count).
HWY_INLINE void write_record(const Recurrence& w, std::int64_t sub, std::int64_t count) {
  const RecurrentBuffers& b = w.b;
  for (std::int64_t i = 0; i < count; ++i) {
    if (w.unit.row_begin == 0) {
      record_key(w.head, sub + i, b.keys + i * b.key_pitch);
      record_decay(w.head, sub + i, b.key_pitch, b.row, b.decay);
    }
    record_delta(w.head, sub + i, w.unit.row_begin, w.rows, b.delta + i * b.value_pitch);
  }
}

HWY_INLINE void write_outputs(const Recurrence& w, std::int64_t sub, std::int64_t count) {
  const std::int64_t n = w.p.householder;
  for (std::int64_t i = 0; i < count; ++i) {
    if ((sub + i) % n != n - 1) continue;
    const float* out = w.b.output + i * w.b.value_pitch;
    const std::int64_t token = w.head.first + (sub + i) / n;
    store_row(out, w.p.scale, w.rows, w.p.o,
              offset_of(w.p.o, w.head.batch, token, w.unit.head) + w.unit.row_begin);
  }
}

HWY_INLINE void seed_rows(const Recurrence& w) {
  const bool stored = starts_from_state(w.p, w.unit.seq);
  if (!stored) std::fill_n(w.b.state, w.rows * w.b.key_pitch, 0.0f);
  if (stored) {
    const StateSlice from = w.slice(w.p.state_in, read_row(w.p, w.unit.seq));
    for (std::int64_t r = 0; r < w.rows; ++r) {
      load_row(from.view, from.row(r), w.p.dim_k, w.b.key_pitch, w.b.state + r * w.b.key_pitch);
    }
  }
  const bool before = w.p.checkpoint_position == CheckpointPosition::kBefore;
  const std::int64_t row = before ? checkpoint_after(w, 0) : kNoRow;
  for (std::int64_t r = 0; r < w.rows && row != kNoRow; ++r) {
    store_row(w.b.state + r * w.b.key_pitch, w.p.dim_k, w.p.checkpoints,
              w.slice(w.p.checkpoints, row).row(r));
  }
}

HWY_INLINE void take_steps(const Recurrence& w, std::int64_t sub, std::int64_t count) {
  load_steps(w, sub, count);
  const Deposits deposits = find_deposits(w, sub, count);
  for (std::int64_t row = 0; row < w.rows; row += 4) {  // V and its shares are multiples of 4
    for (std::int64_t t = 0; t < count; ++t) {
      step_rows<4>(w.b, t, row);
      deposit_rows(w, deposits, t, row, 4);
    }
  }
  write_outputs(w, sub, count);
  write_record(w, sub, count);
}

HWY_INLINE void walk_recurrence(const Recurrence& w) {
  seed_rows(w);
  const std::int64_t end = w.len * w.p.householder;
  for (std::int64_t sub = 0; sub < end; sub += kStepRows) {
    take_steps(w, sub, std::min(kStepRows, end - sub));
  }
  const std::int64_t slot = write_row(w.p, w.unit.seq);
  if (slot == kNoRow) return;
  const StateSlice to = w.slice(w.p.state_out, slot);
  for (std::int64_t r = 0; r < w.rows; ++r) {
    store_row(w.b.state + r * w.b.key_pitch, w.p.dim_k, to.view, to.row(r));
  }
}

HWY_INLINE void hand_on_state(const Recurrence& w) {
  const std::int64_t slot = write_row(w.p, w.unit.seq);
  if (slot == kNoRow) return;
  const StateSlice to = w.slice(w.p.state_out, slot);
  if (!starts_from_state(w.p, w.unit.seq)) {
    zero_state(to, w.p.dim_k);
    return;
  }
  copy_state(w.slice(w.p.state_in, read_row(w.p, w.unit.seq)), to, w.p.dim_k, w.b.row);
}

HWY_INLINE void clear_outputs(const Recurrence& w) {
  const std::int64_t size = size_of(w.p.o.dtype);
  for (std::int64_t t = 0; t < w.len; ++t) {
    const std::int64_t at = offset_of(w.p.o, w.head.batch, w.head.first + t, w.unit.head);
    std::memset(static_cast<std::byte*>(w.p.o.data) + (at + w.unit.row_begin) * size, 0,
                static_cast<std::size_t>(w.rows * size));
  }
}

HWY_INLINE void recurrent_unit(const RecurrentUnit& unit, const RecurrentBuffers& buffers) {
  const LinearProblem& p = *unit.problem;
  const Recurrence w = {.unit = unit,
                        .p = p,
                        .head = head_view(p, unit.seq, unit.head),
                        .b = buffers,
                        .rows = unit.row_end - unit.row_begin,
                        .len = seq_len(p, unit.seq)};
  if (is_skipped(p, unit.seq)) {
    clear_outputs(w);
  } else if (w.len == 0) {
    hand_on_state(w);
  } else {
    walk_recurrence(w);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tilegate::cpu_linear
HWY_AFTER_NAMESPACE();

#endif  // TILEGATE_CPU_LINEAR_RECURRENT_INL_H_
