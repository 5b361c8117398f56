// SPDX-License-Identifier: Apache-2.0
// Replays the first accepted[i] tokens of a record on some V rows of a stored state:
//   S <- S exp(decay_t), then S <- S + d k^T for each of the token's n updates
// Without accepted tokens nothing is touched. Bound by the traffic of the state.
#if defined(TILEGATE_CPU_LINEAR_COMMIT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TILEGATE_CPU_LINEAR_COMMIT_INL_H_
#undef TILEGATE_CPU_LINEAR_COMMIT_INL_H_
#else
#define TILEGATE_CPU_LINEAR_COMMIT_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "backend/cpu/linear/recurrent_buffers.h"
#include "backend/cpu/linear/simd/head_rows-inl.h"
#include "backend/cpu/linear/simd/state_panels-inl.h"
#include "backend/cpu/linear/unit.h"

HWY_BEFORE_NAMESPACE();
namespace tilegate::cpu_linear {
namespace HWY_NAMESPACE {

// Keys, decays and deltas of sub-tokens [sub, sub + count).
HWY_INLINE void load_record(const CommitUnit& unit, std::int64_t sub, std::int64_t count,
                            const RecurrentBuffers& b) {
  const CommitProblem& p = *unit.problem;
  const std::int64_t head_k = mapped_head(unit.head, p.heads_k, p.heads_o);
  const std::int64_t rows = unit.row_end - unit.row_begin;
  for (std::int64_t i = 0; i < count; ++i) {
    load_row(p.record_k, offset_of(p.record_k, unit.seq, sub + i, head_k), p.dim_k, b.key_pitch,
             b.keys + i * b.key_pitch);
    load_row(p.record_d, offset_of(p.record_d, unit.seq, sub + i, unit.head) + unit.row_begin, rows,
             rows, b.delta + i * b.value_pitch);
    float* decay = b.decay + i * b.key_pitch;
    if ((sub + i) % p.householder != 0) {
      fill(decay, b.key_pitch, 1.0f);
      continue;
    }
    const std::int64_t at =
        offset_of(p.record_decay, unit.seq, (sub + i) / p.householder, unit.head);
    if (!p.gate_per_channel) {
      const float log = load_float(p.record_decay.data, p.record_decay.dtype, at);
      fill(decay, b.key_pitch, std::exp(log));
      continue;
    }
    load_row(p.record_decay, at, p.dim_k, b.key_pitch, decay);
    for (std::int64_t k = 0; k < b.key_pitch; k += kLanes) {
      store(hn::Exp(F32(), load(decay + k)), decay + k);
    }
  }
}

HWY_INLINE void replay_row(float* state, std::int64_t row, std::int64_t count,
                           const RecurrentBuffers& b) {
  for (std::int64_t t = 0; t < count; ++t) {
    const Vec delta = splat(b.delta[t * b.value_pitch + row]);
    for (std::int64_t k = 0; k < b.key_pitch; k += kLanes) {
      const Vec s = decayed(load(state + k), load(b.decay + t * b.key_pitch + k));
      store(hn::MulAdd(delta, load(b.keys + t * b.key_pitch + k), s), state + k);
    }
  }
}

HWY_INLINE void commit_unit(const CommitUnit& unit, const RecurrentBuffers& b) {
  const CommitProblem& p = *unit.problem;
  const std::int64_t slot = p.index.present() ? index_at(p.index, unit.seq) : unit.seq;
  const std::int64_t steps = index_at(p.accepted, unit.seq) * p.householder;
  if (slot < 0 || steps == 0) return;
  const StateSlice s = {.view = p.state,
                        .slot = slot,
                        .head = unit.head,
                        .begin = unit.row_begin,
                        .count = unit.row_end - unit.row_begin};
  for (std::int64_t r = 0; r < s.count; ++r) {
    load_row(s.view, s.row(r), p.dim_k, b.key_pitch, b.state + r * b.key_pitch);
  }
  for (std::int64_t sub = 0; sub < steps; sub += kStepRows) {
    const std::int64_t count = std::min(kStepRows, steps - sub);
    load_record(unit, sub, count, b);
    for (std::int64_t r = 0; r < s.count; ++r) {
      replay_row(b.state + r * b.key_pitch, r, count, b);
    }
  }
  for (std::int64_t r = 0; r < s.count; ++r) {
    store_row(b.state + r * b.key_pitch, p.dim_k, s.view, s.row(r));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tilegate::cpu_linear
HWY_AFTER_NAMESPACE();

#endif  // TILEGATE_CPU_LINEAR_COMMIT_INL_H_
