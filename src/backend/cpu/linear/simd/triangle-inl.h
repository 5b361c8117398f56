// SPDX-License-Identifier: Apache-2.0
// The 16-row triangular steps of a chunk, over panels of two vectors:
//   solve    Y <- inv(I + L) Y, L strictly lower: forward substitution, row by row
//   multiply O <- O + P Y, P lower with its diagonal
// Row i uses rows <= i only, in ascending order, so later rows cannot change its bits. A whole
// chunk is four such blocks joined by products. Substitution in fp32 keeps the error of the
// recurrence for parallel keys, where powers of L would cancel.
#if defined(TILEGATE_CPU_LINEAR_TRIANGLE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TILEGATE_CPU_LINEAR_TRIANGLE_INL_H_
#undef TILEGATE_CPU_LINEAR_TRIANGLE_INL_H_
#else
#define TILEGATE_CPU_LINEAR_TRIANGLE_INL_H_
#endif

#include <cstdint>

#include "backend/cpu/linear/buffers.h"
#include "backend/cpu/linear/simd/gemm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tilegate::cpu_linear {
namespace HWY_NAMESPACE {

// One vector of columns; lower points at the diagonal block, pitch kChunk.
inline HWY_NOINLINE void solve_block(const float* HWY_RESTRICT lower, float* HWY_RESTRICT y,
                                     std::int64_t pitch) {
  Vec row[kBlock];
  TILEGATE_UNROLL(16)
  for (int i = 0; i < kBlock; ++i) row[i] = load(y + i * pitch);
  TILEGATE_UNROLL(16)
  for (int j = 0; j + 1 < kBlock; ++j) {
    TILEGATE_UNROLL(16)
    for (int i = j + 1; i < kBlock; ++i) {
      row[i] = hn::NegMulAdd(splat(lower[i * kChunk + j]), row[j], row[i]);
    }
  }
  TILEGATE_UNROLL(16)
  for (int i = 1; i < kBlock; ++i) store(row[i], y + i * pitch);
}

inline HWY_NOINLINE void multiply_block(const float* HWY_RESTRICT reads,
                                        const float* HWY_RESTRICT y, std::int64_t pitch,
                                        float* HWY_RESTRICT out, std::int64_t out_pitch) {
  Vec row[kBlock];
  TILEGATE_UNROLL(16)
  for (int i = 0; i < kBlock; ++i) row[i] = load(out + i * out_pitch);
  TILEGATE_UNROLL(16)
  for (int j = 0; j < kBlock; ++j) {
    const Vec right = load(y + j * pitch);
    TILEGATE_UNROLL(16)
    for (int i = j; i < kBlock; ++i) {
      row[i] = hn::MulAdd(splat(reads[i * kChunk + j]), right, row[i]);
    }
  }
  TILEGATE_UNROLL(16)
  for (int i = 0; i < kBlock; ++i) store(row[i], out + i * out_pitch);
}

// The product of 16 rows of a triangle with the `first` rows of Y before its diagonal block, added
// to `rows` of a panel.
inline Gemm earlier_blocks(const float* triangle, std::int64_t first, const float* y, float* rows) {
  return {.a = triangle,
          .lda = kChunk,
          .b = y,
          .ldb = kPanel,
          .c_in = rows,
          .c = rows,
          .ldc = kPanel,
          .depth = first};
}

// Y <- inv(I + L) Y for one panel [blocks * 16][kPanel].
inline HWY_NOINLINE void solve_panel(const float* lower, std::int64_t blocks, float* y) {
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int64_t first = b * kBlock;
    float* rows = y + first * kPanel;
    const Gemm earlier = earlier_blocks(lower + first * kChunk, first, y, rows);
    if (b > 0) gemm<Init::kLoad, Sign::kMinus, 2>(earlier, kBlock);
    const float* diagonal = lower + first * kChunk + first;
    solve_block(diagonal, rows, kPanel);
    solve_block(diagonal, rows + kLanes, kPanel);
  }
}

// O <- O + P Y for one panel.
inline HWY_NOINLINE void multiply_panel(const float* reads, std::int64_t blocks, const float* y,
                                        float* out) {
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int64_t first = b * kBlock;
    float* rows = out + first * kPanel;
    const Gemm earlier = earlier_blocks(reads + first * kChunk, first, y, rows);
    if (b > 0) gemm<Init::kLoad, Sign::kPlus, 2>(earlier, kBlock);
    const float* diagonal = reads + first * kChunk + first;
    multiply_block(diagonal, y + first * kPanel, kPanel, rows, kPanel);
    multiply_block(diagonal, y + first * kPanel + kLanes, kPanel, rows + kLanes, kPanel);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tilegate::cpu_linear
HWY_AFTER_NAMESPACE();

#endif  // TILEGATE_CPU_LINEAR_TRIANGLE_INL_H_
