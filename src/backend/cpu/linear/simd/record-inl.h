// SPDX-License-Identifier: Apache-2.0
// Rows of the replay record (k, d, natural-log decay), from which `commit` advances a state. Every
// function does nothing when its part of the record is absent.
#if defined(TILEGATE_CPU_LINEAR_RECORD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TILEGATE_CPU_LINEAR_RECORD_INL_H_
#undef TILEGATE_CPU_LINEAR_RECORD_INL_H_
#else
#define TILEGATE_CPU_LINEAR_RECORD_INL_H_
#endif

#include <cstdint>

#include "backend/cpu/linear/simd/head_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tilegate::cpu_linear {
namespace HWY_NAMESPACE {

// The key of a sub-token, by the first of the heads that share it.
HWY_INLINE void record_key(const HeadView& h, std::int64_t sub, const float* key) {
  const LinearProblem& p = h.p;
  const bool first = h.head == 0 || mapped_head(h.head - 1, p.heads_k, p.heads_o) != h.head_k;
  if (!p.record_k.present() || !first) return;
  store_row(key, p.dim_k, p.record_k, offset_of(p.record_k, h.seq, sub, h.head_k));
}

// Columns [column, column + count) of d.
HWY_INLINE void record_delta(const HeadView& h, std::int64_t sub, std::int64_t column,
                             std::int64_t count, const float* delta) {
  const LinearProblem& p = h.p;
  if (!p.record_d.present()) return;
  store_row(delta, count, p.record_d, offset_of(p.record_d, h.seq, sub, h.head) + column);
}

// The decay of the token that starts at `sub`, if one does; scratch and row hold a key row each.
inline HWY_NOINLINE void record_decay(const HeadView& h, std::int64_t sub, std::int64_t pitch,
                                      float* scratch, float* row) {
  const LinearProblem& p = h.p;
  if (!p.record_decay.present() || sub % p.householder != 0) return;
  const std::int64_t token = sub / p.householder;
  const std::int64_t at = offset_of(p.record_decay, h.seq, token, h.head);
  if (!p.gate_per_channel) {
    const float stored = stored_gate(p, h.batch, h.first + token, h.head);
    store_float(p.record_decay.data, p.record_decay.dtype, at,
                log_decay(h.gate, stored, h.gate.bias));
    return;
  }
  if (p.gate == GateKind::kNone) {
    fill(row, pitch, 0.0f);
  } else {
    stored_decay_row(h, token, pitch, scratch, row);
  }
  for (std::int64_t k = 0; k < p.dim_k && p.gate == GateKind::kLinear; ++k) {
    row[k] = log_decay(h.gate, row[k], 0.0f);
  }
  store_row(row, p.dim_k, p.record_decay, at);
}

}  // namespace HWY_NAMESPACE
}  // namespace tilegate::cpu_linear
HWY_AFTER_NAMESPACE();

#endif  // TILEGATE_CPU_LINEAR_RECORD_INL_H_
