// SPDX-License-Identifier: Apache-2.0
// Small matrix products over panels: C[rows][n] = init +- A[rows][depth] B[depth][n], n one or two
// vectors. A is broadcast element by element, so every element of C is one chain of fused
// multiply-adds over depth in ascending order: its bits depend on no other row or column, nor on
// the tile that computes it. Bound by multiply-add throughput: 8 rows x 2 vectors of accumulators.
#if defined(TILEGATE_CPU_LINEAR_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TILEGATE_CPU_LINEAR_GEMM_INL_H_
#undef TILEGATE_CPU_LINEAR_GEMM_INL_H_
#else
#define TILEGATE_CPU_LINEAR_GEMM_INL_H_
#endif

#include <cstdint>

#include "backend/cpu/linear/simd/rows-inl.h"
#include "backend/cpu/linear/simd/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace tilegate::cpu_linear {
namespace HWY_NAMESPACE {

enum class Init : std::uint8_t { kZero, kLoad, kScale };  // 0, C_in, scale[row] * C_in
enum class Sign : std::uint8_t { kPlus, kMinus };

struct Gemm {
  const float* a = nullptr;  // [rows][depth]
  std::int64_t lda = 0;
  const float* b = nullptr;  // [depth][n]
  std::int64_t ldb = 0;
  const float* c_in = nullptr;   // [rows][n]
  const float* scale = nullptr;  // [rows]
  float* c = nullptr;            // [rows][n], may be c_in
  std::int64_t ldc = 0;
  std::int64_t depth = 0;
};

template <Init kInit, Sign kSign, int kRows, int kVecs>
HWY_INLINE void gemm_tile(const Gemm& g, std::int64_t row) {
  Vec acc[kRows][kVecs];
  TILEGATE_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    TILEGATE_UNROLL(4)
    for (int n = 0; n < kVecs; ++n) {
      if constexpr (kInit == Init::kZero) {
        acc[r][n] = hn::Zero(F32());
      } else {
        acc[r][n] = load(g.c_in + (row + r) * g.ldc + n * kLanes);
        if constexpr (kInit == Init::kScale) {
          acc[r][n] = hn::Mul(acc[r][n], splat(g.scale[row + r]));
        }
      }
    }
  }
  const float* HWY_RESTRICT a = g.a + row * g.lda;
  const float* HWY_RESTRICT b = g.b;
  for (std::int64_t k = 0; k < g.depth; ++k, b += g.ldb) {
    Vec right[kVecs];
    TILEGATE_UNROLL(4)
    for (int n = 0; n < kVecs; ++n) right[n] = load(b + n * kLanes);
    TILEGATE_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      const Vec left = splat(a[r * g.lda + k]);
      TILEGATE_UNROLL(4)
      for (int n = 0; n < kVecs; ++n) {
        acc[r][n] = kSign == Sign::kPlus ? hn::MulAdd(left, right[n], acc[r][n])
                                         : hn::NegMulAdd(left, right[n], acc[r][n]);
      }
    }
  }
  TILEGATE_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    TILEGATE_UNROLL(4)
    for (int n = 0; n < kVecs; ++n) store(acc[r][n], g.c + (row + r) * g.ldc + n * kLanes);
  }
}

// Rows [0, rows) of a product whose width is kVecs vectors.
template <Init kInit, Sign kSign, int kVecs>
HWY_NOINLINE void gemm(const Gemm& g, std::int64_t rows) {
  constexpr int kTile = kLanes >= 16 ? 8 : 4;  // as many accumulators as registers allow
  std::int64_t row = 0;
  for (; row + kTile <= rows; row += kTile) gemm_tile<kInit, kSign, kTile, kVecs>(g, row);
  if constexpr (kTile == 8) {
    if (row + 4 <= rows) {
      gemm_tile<kInit, kSign, 4, kVecs>(g, row);
      row += 4;
    }
  }
  for (; row < rows; ++row) gemm_tile<kInit, kSign, 1, kVecs>(g, row);
}

// C = A B over `columns`, rounded up to whole vectors.
HWY_INLINE void gemm_columns(Gemm g, std::int64_t rows, std::int64_t columns) {
  for (; columns > kLanes; columns -= kPanel) {
    gemm<Init::kZero, Sign::kPlus, 2>(g, rows);
    g.b += kPanel;
    g.c += kPanel;
  }
  if (columns > 0) gemm<Init::kZero, Sign::kPlus, 1>(g, rows);
}

}  // namespace HWY_NAMESPACE
}  // namespace tilegate::cpu_linear
HWY_AFTER_NAMESPACE();

#endif  // TILEGATE_CPU_LINEAR_GEMM_INL_H_
