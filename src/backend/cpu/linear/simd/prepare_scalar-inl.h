// SPDX-License-Identifier: Apache-2.0
// Chunk matrices for one decay a token (GDN, GDP), rows already loaded:
//   L_ij = (e_i . k_j) G_ij, j < i;  P_ij = (q_i . k_j) G_ij, j <= i;  G_ij = alpha_{j+1} ..
//   alpha_i erase_i, query_i *= alpha_0 .. alpha_i;  tail_j = k_j G_{last, j}
// G is a running product down the rows: no logarithm, no exponential, no quotient. Products of
// numbers in [0, 1] only shrink, so alpha = 0 forgets exactly and nothing can overflow; the
// relative error of a product of m factors is m roundings, that of the recurrence itself.
#if defined(TILEGATE_CPU_LINEAR_PREPARE_SCALAR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TILEGATE_CPU_LINEAR_PREPARE_SCALAR_INL_H_
#undef TILEGATE_CPU_LINEAR_PREPARE_SCALAR_INL_H_
#else
#define TILEGATE_CPU_LINEAR_PREPARE_SCALAR_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "backend/cpu/linear/simd/head_rows-inl.h"
#include "backend/cpu/linear/simd/triangle-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tilegate::cpu_linear {
namespace HWY_NAMESPACE {

// C = A keys_t over the columns that rows at or below the diagonal need.
inline HWY_NOINLINE void lower_product(const float* a, std::int64_t rows, const ChunkBuffers& b,
                                       float* c) {
  constexpr std::int64_t kTile = 8;
  for (std::int64_t row = 0; row < rows; row += kTile) {
    const std::int64_t count = std::min(kTile, rows - row);
    gemm_columns({.a = a + row * b.dims.key_pitch(),
                  .lda = b.dims.key_pitch(),
                  .b = b.keys_t,
                  .ldb = kChunk,
                  .c = c + row * kChunk,
                  .ldc = kChunk,
                  .depth = b.dims.dim_k},
                 count, round_up(row + count, kBlock));
  }
}

// The decays and erase scalars of a chunk's rows: the gate of a token decays before its first
// sub-token.
inline HWY_NOINLINE void load_scalars(const HeadView& h, std::int64_t sub, std::int64_t rows,
                                      const ChunkBuffers& b) {
  const std::int64_t n = h.p.householder;
  for (std::int64_t i = 0; i < rows; ++i) {
    const bool gated = (sub + i) % n == 0;
    const std::int64_t token = h.first + (sub + i) / n;
    b.row_decay[i] =
        gated ? decay(h.gate, stored_gate(h.p, h.batch, token, h.head), h.gate.bias) : 1.0f;
    b.row_erase[i] = erase_scalar(h.p, h.batch, h.first * n + sub + i, h.head);
  }
  for (std::int64_t i = rows; i < round_up(rows, kBlock); ++i) {
    b.row_decay[i] = 1.0f;
    b.row_erase[i] = 0.0f;
  }
}

// What heads with the same key and query head share: keys transposed, products of rows.
inline HWY_NOINLINE void pair_rows(std::int64_t rows, Queries queries, const ChunkBuffers& b) {
  const std::int64_t pitch = b.dims.key_pitch();
  const std::int64_t padded = round_up(rows, kBlock);
  for (std::int64_t i = 0; i < padded; i += 4) {
    transpose_rows4(b.keys + i * pitch, pitch, b.dims.dim_k, b.keys_t + i, kChunk);
  }
  lower_product(b.keys, padded, b, b.key_pairs);
  if (queries == Queries::kLoad) lower_product(b.raw_query, padded, b, b.query_pairs);
}

// out = a * b * factor; `n` is a multiple of 16.
HWY_INLINE void multiply_rows_by(const float* a, const float* b, float factor, std::int64_t n,
                                 float* out) {
  const Vec f = splat(factor);
  for (std::int64_t i = 0; i < n; i += kLanes) {
    store(hn::Mul(hn::Mul(load(a + i), f), load(b + i)), out + i);
  }
}

// From the pairs, decays and erase of one head to its chunk matrices. An erase vector is already
// in the erase rows (kVector), an erase scalar in row_erase.
template <EraseKind kErase>
HWY_NOINLINE void gate_rows(std::int64_t rows, Queries queries, const ChunkBuffers& b) {
  const std::int64_t pitch = b.dims.key_pitch();
  const std::int64_t padded = round_up(rows, kBlock);
  if constexpr (kErase == EraseKind::kVector) lower_product(b.erase, padded, b, b.lower);
  alignas(64) float gamma[kChunk] = {};  // G_ij of the current row i
  float prefix = 1.0f;
  fill(b.prefix_decay, pitch, 1.0f);
  for (std::int64_t i = 0; i < padded; ++i) {
    scale_row(gamma, b.row_decay[i], kChunk);
    prefix *= b.row_decay[i];
    const std::int64_t width = round_up(i + 1, kBlock);
    float* lower = b.lower + i * kChunk;
    float* erase = b.erase + i * pitch;
    if constexpr (kErase == EraseKind::kVector) {
      multiply_rows(lower, gamma, width, lower);
      scale_row(erase, prefix, pitch);
    } else {
      multiply_rows_by(b.key_pairs + i * kChunk, gamma, b.row_erase[i], width, lower);
      const Vec factor = splat(b.row_erase[i] * prefix);
      for (std::int64_t c = 0; c < pitch; c += kLanes) {
        store(hn::Mul(load(b.keys + i * pitch + c), factor), erase + c);
      }
    }
    gamma[i] = 1.0f;
    if (queries == Queries::kLoad) {
      multiply_rows(b.query_pairs + i * kChunk, gamma, width, b.reads + i * kChunk);
      const Vec factor = splat(prefix);
      for (std::int64_t c = 0; c < pitch; c += kLanes) {
        store(hn::Mul(load(b.raw_query + i * pitch + c), factor), b.query + i * pitch + c);
      }
    }
    if ((i + 1) % kBlock != 0) continue;
    const std::int64_t boundary = (i + 1) / kBlock;
    fill(b.prefix_decay + boundary * pitch, pitch, prefix);
    std::copy(gamma, gamma + kChunk, b.boundary_gamma + (boundary - 1) * kChunk);
  }
}

// Keys decayed to the end of block `blocks - 1`, transposed, into tail_t.
inline HWY_NOINLINE void scalar_tail(std::int64_t blocks, const ChunkBuffers& b) {
  const float* gamma = b.boundary_gamma + (blocks - 1) * kChunk;
  for (std::int64_t k = 0; k < b.dims.dim_k; ++k) {
    multiply_rows(b.keys_t + k * kChunk, gamma, blocks * kBlock, b.tail_t + k * kChunk);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tilegate::cpu_linear
HWY_AFTER_NAMESPACE();

#endif  // TILEGATE_CPU_LINEAR_PREPARE_SCALAR_INL_H_
