// SPDX-License-Identifier: Apache-2.0
// The rows of one chunk of one head as fp32: keys and queries as used (normalised if asked), erase
// vectors, decays. Rows are sub-tokens: token * householder + j; the gate belongs to j = 0 and the
// query to the last j. Rows up to the next multiple of 16 are zero keys with decay 1, which change
// nothing, so a partial chunk is computed exactly as the head of a full one.
#if defined(TILEGATE_CPU_LINEAR_HEAD_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TILEGATE_CPU_LINEAR_HEAD_ROWS_INL_H_
#undef TILEGATE_CPU_LINEAR_HEAD_ROWS_INL_H_
#else
#define TILEGATE_CPU_LINEAR_HEAD_ROWS_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>

#include <algorithm>
#include <cstdint>

#include "backend/cpu/linear/buffers.h"
#include "backend/cpu/linear/gate.h"
#include "backend/cpu/linear/simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tilegate::cpu_linear {
namespace HWY_NAMESPACE {

// Where the tokens of one (sequence, head) are.
struct HeadView {
  const LinearProblem& p;
  std::int64_t seq = 0;
  std::int64_t batch = 0;
  std::int64_t first = 0;  // token 0 of the sequence in dimension 1
  std::int64_t head = 0;
  std::int64_t head_q = 0;
  std::int64_t head_k = 0;
  std::int64_t head_v = 0;
  GateParams gate;
};

HWY_INLINE HeadView head_view(const LinearProblem& p, std::int64_t seq, std::int64_t head) {
  return {.p = p,
          .seq = seq,
          .batch = seq_batch(p, seq),
          .first = seq_begin(p, seq),
          .head = head,
          .head_q = mapped_head(head, p.heads_q, p.heads_o),
          .head_k = mapped_head(head, p.heads_k, p.heads_o),
          .head_v = mapped_head(head, p.heads_v, p.heads_o),
          .gate = gate_params(p, head)};
}

HWY_INLINE Vec sigmoid_lanes(Vec x) {
  const F32 d;
  const Vec one = splat(1.0f);
  return hn::Div(one, hn::Add(one, hn::Exp(d, hn::Min(hn::Neg(x), splat(88.0f)))));
}

HWY_INLINE Vec softplus_lanes(Vec x) {
  const F32 d;
  const Vec limit = splat(20.0f);
  const Vec curved = hn::Log1p(d, hn::Exp(d, hn::Min(x, limit)));
  return hn::IfThenElse(hn::Gt(x, limit), x, curved);
}

// Log decays (not kNone, kLinear) of a padded row of stored gates; `bias` may be null.
HWY_INLINE void log_decay_row(const GateParams& gate, const float* bias, std::int64_t n,
                              float* row) {
  for (std::int64_t i = 0; i < n; i += kLanes) {
    Vec x = load(row + i);
    if (bias != nullptr) x = hn::Add(x, load(bias + i));
    if (gate.kind == GateKind::kSoftplus) x = hn::Mul(splat(-gate.rate), softplus_lanes(x));
    if (gate.kind == GateKind::kLowerBound) {
      x = hn::Mul(splat(gate.lower_bound), sigmoid_lanes(hn::Mul(splat(gate.rate), x)));
    }
    store(x, row + i);
  }
}

// Per-channel log decay of a token, or alpha itself for kLinear, in `row`; scratch holds a row.
HWY_INLINE void stored_decay_row(const HeadView& h, std::int64_t token, std::int64_t pitch,
                                 float* scratch, float* row) {
  const LinearProblem& p = h.p;
  load_row(p.g, offset_of(p.g, h.batch, h.first + token, h.head), p.dim_k, pitch, row);
  const bool raw = h.gate.kind == GateKind::kSoftplus || h.gate.kind == GateKind::kLowerBound;
  if (!raw) return;
  const bool has_bias = h.gate.bias_offset >= 0 && p.dt_bias.rank == 2;
  if (has_bias) load_row(p.dt_bias, h.gate.bias_offset, p.dim_k, pitch, scratch);
  log_decay_row(h.gate, has_bias ? scratch : nullptr, pitch, row);
}

// Per-channel alpha of a token.
inline HWY_NOINLINE void decay_row(const HeadView& h, std::int64_t token, std::int64_t pitch,
                                   float* scratch, float* row) {
  stored_decay_row(h, token, pitch, scratch, row);
  if (h.gate.kind == GateKind::kLinear) return;
  for (std::int64_t i = 0; i < pitch; i += kLanes) {
    store(hn::Exp(F32(), load(row + i)), row + i);
  }
}

inline HWY_NOINLINE void key_row(const HeadView& h, std::int64_t sub, std::int64_t pitch,
                                 float* row) {
  const LinearProblem& p = h.p;
  const std::int64_t at = h.first * p.householder + sub;
  load_row(p.k, offset_of(p.k, h.batch, at, h.head_k), p.dim_k, pitch, row);
  if (p.l2norm) normalise_row(row, pitch);
}

inline HWY_NOINLINE void query_row(const HeadView& h, std::int64_t token, std::int64_t pitch,
                                   float* row) {
  const LinearProblem& p = h.p;
  load_row(p.q, offset_of(p.q, h.batch, h.first + token, h.head_q), p.dim_k, pitch, row);
  if (p.l2norm) normalise_row(row, pitch);
}

// erase * key; returns the erase scalar (1 for a vector).
inline HWY_NOINLINE float erase_row(const HeadView& h, std::int64_t sub, std::int64_t pitch,
                                    const float* key, float* row) {
  const LinearProblem& p = h.p;
  const std::int64_t at = h.first * p.householder + sub;
  if (p.erase != EraseKind::kVector) {
    const float scalar = erase_scalar(p, h.batch, at, h.head);
    const Vec factor = splat(scalar);
    for (std::int64_t i = 0; i < pitch; i += kLanes) {
      store(hn::Mul(load(key + i), factor), row + i);
    }
    return scalar;
  }
  load_row(p.beta, offset_of(p.beta, h.batch, at, h.head), p.dim_k, pitch, row);
  if (p.beta_is_logit) {
    for (std::int64_t i = 0; i < pitch; i += kLanes) {
      store(sigmoid_lanes(load(row + i)), row + i);
    }
  }
  multiply_rows(row, key, pitch, row);
  return 1.0f;
}

// write * v for columns [column, column + n) of V.
inline HWY_NOINLINE void value_row(const HeadView& h, std::int64_t sub, std::int64_t column,
                                   std::int64_t n, std::int64_t padded, float* scratch,
                                   float* row) {
  const LinearProblem& p = h.p;
  const std::int64_t at = h.first * p.householder + sub;
  load_row(p.v, offset_of(p.v, h.batch, at, h.head_v) + column, n, padded, row);
  if (p.write == WriteKind::kErase) {
    const Vec factor = splat(erase_scalar(p, h.batch, at, h.head));
    for (std::int64_t i = 0; i < padded; i += kLanes)
      store(hn::Mul(load(row + i), factor), row + i);
  }
  if (p.write == WriteKind::kVector) {
    load_row(p.w, offset_of(p.w, h.batch, at, h.head) + column, n, padded, scratch);
    for (std::int64_t i = 0; i < padded; i += kLanes) {
      store(hn::Mul(load(row + i), load(scratch + i)), row + i);
    }
  }
}

enum class Queries : std::uint8_t { kLoad, kSkip };

// Keys and, where a token ends, queries of rows [sub, sub + rows).
inline HWY_NOINLINE void load_keys(const HeadView& h, std::int64_t sub, std::int64_t rows,
                                   Queries queries, const ChunkBuffers& b, float* query) {
  const std::int64_t pitch = b.dims.key_pitch();
  const std::int64_t n = h.p.householder;
  for (std::int64_t i = 0; i < rows; ++i) {
    key_row(h, sub + i, pitch, b.keys + i * pitch);
    const bool readout = queries == Queries::kLoad && (sub + i) % n == n - 1;
    if (readout) query_row(h, (sub + i) / n, pitch, query + i * pitch);
    if (!readout) fill(query + i * pitch, pitch, 0.0f);
  }
  const std::int64_t pad = (round_up(rows, kBlock) - rows) * pitch;
  fill(b.keys + rows * pitch, pad, 0.0f);
  fill(query + rows * pitch, pad, 0.0f);
}

// erase * key of rows [sub, sub + rows).
inline HWY_NOINLINE void load_erase(const HeadView& h, std::int64_t sub, std::int64_t rows,
                                    const ChunkBuffers& b) {
  const std::int64_t pitch = b.dims.key_pitch();
  for (std::int64_t i = 0; i < rows; ++i) {
    erase_row(h, sub + i, pitch, b.keys + i * pitch, b.erase + i * pitch);
  }
  fill(b.erase + rows * pitch, (round_up(rows, kBlock) - rows) * pitch, 0.0f);
}

}  // namespace HWY_NAMESPACE
}  // namespace tilegate::cpu_linear
HWY_AFTER_NAMESPACE();

#endif  // TILEGATE_CPU_LINEAR_HEAD_ROWS_INL_H_
