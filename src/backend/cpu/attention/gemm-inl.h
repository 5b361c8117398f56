// SPDX-License-Identifier: Apache-2.0
// The two products of a flash tile, fp32, for every SIMD target:
//   scores  P[key, row]  = K[key, :] . Q[:, row]      (both operands and the result transposed)
//   values  O[row, :]    = alpha[row] O[row, :] + sum over keys of P[key, row] V[key, :]
// Packed rows are the lanes of the first and the block rows of the second, so neither K, P nor V is
// ever transposed. A block of kRows x kVectors results stays in registers over the whole depth;
// every result is one chain of fused multiply-adds in order of depth, whatever block it is in, so
// its bits do not depend on its neighbours. Bound by the FMA ports.
#if defined(TILEGATE_CPU_ATTENTION_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TILEGATE_CPU_ATTENTION_GEMM_INL_H_
#undef TILEGATE_CPU_ATTENTION_GEMM_INL_H_
#else
#define TILEGATE_CPU_ATTENTION_GEMM_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>

#include "backend/cpu/attention/job.h"

HWY_BEFORE_NAMESPACE();
namespace tilegate::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using FloatVec = hn::Vec<FloatTag>;

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON  // 32 registers
inline constexpr int kKeyBlock = 8;
inline constexpr int kValueVectors = 4;
#else  // 16 registers
inline constexpr int kKeyBlock = 4;
inline constexpr int kValueVectors = 2;
#endif
inline constexpr int kScoreVectors = 3;
static_assert(kKeyTile % kKeyBlock == 0);

struct Product {
  const float* a = nullptr;
  std::ptrdiff_t a_stride = 0;  // between block rows (scores) or between depths (values)
  const float* b = nullptr;
  std::ptrdiff_t b_stride = 0;  // between depths
  float* c = nullptr;
  std::ptrdiff_t c_stride = 0;   // between block rows
  const float* alpha = nullptr;  // values: one a block row
  std::ptrdiff_t depth = 0;
};

// c[i, :] = sum_k a[i, k] b[k, :], kRows x kVectors.
template <int kRows, int kVectors>
HWY_INLINE void score_block(const Product& t) {
  const FloatTag d;
  const std::ptrdiff_t lanes = static_cast<std::ptrdiff_t>(hn::Lanes(d));
  FloatVec acc[kRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) acc[i][j] = hn::Zero(d);
  }
  const float* HWY_RESTRICT a = t.a;
  const float* HWY_RESTRICT b = t.b;
  const std::ptrdiff_t a_stride = t.a_stride;
  for (std::ptrdiff_t k = 0; k < t.depth; ++k, b += t.b_stride) {
    FloatVec row[kVectors];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) row[j] = hn::Load(d, b + j * lanes);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const FloatVec x = hn::Set(d, a[i * a_stride + k]);
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) acc[i][j] = hn::MulAdd(x, row[j], acc[i][j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      hn::Store(acc[i][j], d, t.c + i * t.c_stride + j * lanes);
    }
  }
}

// c[i, :] = alpha[i] c[i, :] + sum_k a[k, i] b[k, :], kRows x kVectors.
template <int kRows, int kVectors>
HWY_INLINE void value_block(const Product& t) {
  const FloatTag d;
  const std::ptrdiff_t lanes = static_cast<std::ptrdiff_t>(hn::Lanes(d));
  FloatVec acc[kRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
    const FloatVec scale = hn::Set(d, t.alpha[i]);
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      acc[i][j] = hn::Mul(scale, hn::Load(d, t.c + i * t.c_stride + j * lanes));
    }
  }
  const float* HWY_RESTRICT a = t.a;
  const float* HWY_RESTRICT b = t.b;
  for (std::ptrdiff_t k = 0; k < t.depth; ++k, a += t.a_stride, b += t.b_stride) {
    FloatVec row[kVectors];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) row[j] = hn::Load(d, b + j * lanes);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const FloatVec x = hn::Set(d, a[i]);
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) acc[i][j] = hn::MulAdd(x, row[j], acc[i][j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      hn::Store(acc[i][j], d, t.c + i * t.c_stride + j * lanes);
    }
  }
}

template <int kVectors>
void score_panel(Product t, int keys) {
  const float* a = t.a;
  float* c = t.c;
  for (int key = 0; key < keys; key += kKeyBlock) {
    t.a = a + key * t.a_stride;
    t.c = c + key * t.c_stride;
    score_block<kKeyBlock, kVectors>(t);
  }
}

template <int kVectors>
void value_panel(Product t, int rows) {
  const auto advance = static_cast<std::ptrdiff_t>(t.c_stride);
  int left = rows;
  for (; left >= 6; left -= 6, t.a += 6, t.alpha += 6, t.c += 6 * advance) {
    value_block<6, kVectors>(t);
  }
  for (; left >= 4; left -= 4, t.a += 4, t.alpha += 4, t.c += 4 * advance) {
    value_block<4, kVectors>(t);
  }
  for (; left >= 2; left -= 2, t.a += 2, t.alpha += 2, t.c += 2 * advance) {
    value_block<2, kVectors>(t);
  }
  if (left == 1) value_block<1, kVectors>(t);
}

// P[key, row] for key < keys, rounded up to whole key blocks, and row < rows, whole vectors.
inline void scores(const FlashScratch& scratch, std::int64_t dim_qk, int keys, int rows) {
  const int lanes = static_cast<int>(hn::Lanes(FloatTag()));
  Product t{.a = scratch.k,
            .a_stride = dim_qk,
            .b = scratch.q,
            .b_stride = rows,
            .c = scratch.p,
            .c_stride = rows,
            .depth = dim_qk};
  int vectors = rows / lanes;
  for (; vectors >= kScoreVectors; vectors -= kScoreVectors) {
    score_panel<kScoreVectors>(t, keys);
    t.b += kScoreVectors * lanes;
    t.c += kScoreVectors * lanes;
  }
  if (vectors == 2) score_panel<2>(t, keys);
  if (vectors == 1) score_panel<1>(t, keys);
}

// O[row, :] for row < rows of the tile; P has `padded_rows` columns.
inline void values(const FlashScratch& scratch, std::int64_t dim_v_padded, int keys, int rows,
                   int padded_rows) {
  const int lanes = static_cast<int>(hn::Lanes(FloatTag()));
  Product t{.a = scratch.p,
            .a_stride = padded_rows,
            .b = scratch.v,
            .b_stride = dim_v_padded,
            .c = scratch.part.o,
            .c_stride = dim_v_padded,
            .alpha = scratch.alpha,
            .depth = keys};
  int vectors = static_cast<int>(dim_v_padded) / lanes;
  for (; vectors >= kValueVectors; vectors -= kValueVectors) {
    value_panel<kValueVectors>(t, rows);
    t.b += kValueVectors * lanes;
    t.c += kValueVectors * lanes;
  }
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
  if (vectors == 3) value_panel<3>(t, rows);
  if (vectors == 2) value_panel<2>(t, rows);
#endif
  if (vectors == 1) value_panel<1>(t, rows);
}

}  // namespace tilegate::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
