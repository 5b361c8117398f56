// SPDX-License-Identifier: Apache-2.0
// The two products of a flash tile for up to kDirectRows rows, read straight from the caches, for
// every SIMD target:
//   scores  P[key, row] = K[key, :] . Q[row, :]    lanes are dims; four rows are reduced together
//   values  O[row, :]   = alpha[row] O[row, :] + sum over keys of P[key, row] V[key, :]
// With few rows, a widened copy of a key costs as much as its use. Every score is one chain of
// fused multiply-adds a lane and one fixed reduction; every value is the chain of values(), to the
// bit. Bound by memory.
#if defined(TILEGATE_CPU_ATTENTION_DIRECT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TILEGATE_CPU_ATTENTION_DIRECT_INL_H_
#undef TILEGATE_CPU_ATTENTION_DIRECT_INL_H_
#else
#define TILEGATE_CPU_ATTENTION_DIRECT_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "backend/cpu/attention/gemm-inl.h"
#include "backend/cpu/attention/job.h"
#include "backend/cpu/attention/load-inl.h"
#include "backend/cpu/attention/rows-inl.h"
#include "backend/cpu/simd_convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tilegate::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Whether the direct form serves the shape: whole vectors, few rows. It must not look at lengths,
// because it sums a score in another order than scores().
inline bool is_direct(const FlashJob& job) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(FloatTag()));
  const AttentionProblem& problem = *job.problem;
  const std::int64_t rows = problem.max_qo_len * problem.group_size();
  return job.key_tile == kDecodeKeyTile && rows <= kDirectRows && problem.dim_qk % lanes == 0 &&
         problem.dim_v % lanes == 0;
}

#if TILEGATE_SIMD_HALF

// to[i] = sum of lanes i, i + 4, i + 8 .. of x.
template <class D>
HWY_INLINE void store_block_sum(D d, hn::Vec<D> x, float* to) {
  if constexpr (hn::MaxLanes(D()) <= 4) {
    hn::Store(x, d, to);
  } else {
    const hn::Half<D> half;
    store_block_sum(half, hn::Add(hn::LowerHalf(half, x), hn::UpperHalf(half, x)), to);
  }
}

// to[i] = sum of the lanes of x[i], for four vectors.
HWY_INLINE void store_sums(const FloatVec* x, float* to) {
  const FloatTag d;
  const hn::Repartition<std::uint64_t, FloatTag> d64;
  const auto ab = hn::BitCast(
      d64, hn::Add(hn::InterleaveLower(d, x[0], x[1]), hn::InterleaveUpper(d, x[0], x[1])));
  const auto ce = hn::BitCast(
      d64, hn::Add(hn::InterleaveLower(d, x[2], x[3]), hn::InterleaveUpper(d, x[2], x[3])));
  const FloatVec low = hn::BitCast(d, hn::InterleaveLower(d64, ab, ce));
  const FloatVec high = hn::BitCast(d, hn::InterleaveUpper(d64, ab, ce));
  store_block_sum(d, hn::Add(low, high), to);
}

#else

HWY_INLINE void store_sums(const FloatVec* x, float* to) {
  const FloatTag d;
  for (int i = 0; i < 4; ++i) to[i] = hn::GetLane(hn::SumOfLanes(d, x[i]));
}

#endif  // TILEGATE_SIMD_HALF

// scratch.q[row, dim] of the item, rows past its own zero up to a multiple of four. Clears the
// lanes of P that no score reaches.
template <class T>
void load_query_rows(const AttentionProblem& problem, const FlashItem& item,
                     const FlashScratch& scratch) {
  const std::int64_t dim = problem.dim_qk;
  for (int r = 0; r < item.rows; ++r) {
    const PackedRow at = unpack_row(problem, item, r);
    const T* from = static_cast<const T*>(problem.q.data) +
                    qo_offset(problem, problem.q, item.request, at.row) +
                    at.head * problem.q.strides[2];
    load_row(from, dim, scratch.q + r * dim);
  }
  std::fill(scratch.q + item.rows * dim, scratch.q + round_up(item.rows, 4) * dim, 0.0f);
  std::fill(scratch.p, scratch.p + kDecodeKeyTile * kMaxLanes, 0.0f);
}

// P[key, 0..4) of kKeys keys; q [4, dim].
template <int kKeys, class T>
HWY_INLINE void direct_score_block(const T* const* rows, const float* q, std::int64_t dim,
                                   float* p) {
  const FloatTag d;
  FloatVec acc[kKeys][4];
#pragma GCC unroll 8
  for (int key = 0; key < kKeys; ++key) {
#pragma GCC unroll 8
    for (int r = 0; r < 4; ++r) acc[key][r] = hn::Zero(d);
  }
  for (std::int64_t i = 0; i < dim; i += static_cast<std::int64_t>(hn::Lanes(d))) {
    FloatVec query[4];
#pragma GCC unroll 8
    for (int r = 0; r < 4; ++r) query[r] = hn::Load(d, q + r * dim + i);
#pragma GCC unroll 8
    for (int key = 0; key < kKeys; ++key) {
      const FloatVec x = load_as_float(d, rows[key] + i);
#pragma GCC unroll 8
      for (int r = 0; r < 4; ++r) acc[key][r] = hn::MulAdd(x, query[r], acc[key][r]);
    }
  }
#pragma GCC unroll 8
  for (int key = 0; key < kKeys; ++key) store_sums(acc[key], p + key * kMaxLanes);
}

// P of the tile for rows in fours; scratch.q is [rows, dim_qk], zero past the item's rows.
template <class T>
void direct_scores(const AttentionProblem& problem, const RowStep<T>& step, int count, int rows,
                   const FlashScratch& scratch) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
  constexpr int kBlock = 4;
#else
  constexpr int kBlock = 2;
#endif
  const std::int64_t dim = problem.dim_qk;
  for (int r = 0; r < rows; r += 4) {
    const float* q = scratch.q + r * dim;
    float* p = scratch.p + r;
    for (int key = 0; key < count; key += kBlock) {
      for (int i = 0; r == 0 && i < kBlock; ++i) {
        fetch_row(step.values.row[key + i], problem.dim_v);
      }
      // Rows past the count repeat the last one; nothing reads their scores.
      direct_score_block<kBlock>(step.keys.row + key, q, dim, p + key * kMaxLanes);
    }
  }
}

// As value_block(), with V taken from the cache.
template <int kRows, int kVectors, class T>
HWY_INLINE void direct_value_block(const RowPointers<T>& values, std::int64_t at,
                                   const Product& t) {
  const FloatTag d;
  const auto lanes = static_cast<std::ptrdiff_t>(hn::Lanes(d));
  FloatVec acc[kRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      const FloatVec before = hn::Load(d, t.c + i * t.c_stride + at + j * lanes);
      acc[i][j] = hn::Mul(hn::Set(d, t.alpha[i]), before);
    }
  }
  const float* HWY_RESTRICT a = t.a;
  for (std::ptrdiff_t key = 0; key < t.depth; ++key, a += kMaxLanes) {
    FloatVec row[kVectors];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) row[j] = load_as_float(d, values.row[key] + at + j * lanes);
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
      hn::Store(acc[i][j], d, t.c + i * t.c_stride + at + j * lanes);
    }
  }
}

template <int kRows, class T>
void direct_value_rows(const RowPointers<T>& values, std::int64_t dim, const Product& t) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(FloatTag()));
  std::int64_t at = 0;
  for (; at + kValueVectors * lanes <= dim; at += kValueVectors * lanes) {
    direct_value_block<kRows, kValueVectors>(values, at, t);
  }
  for (; at < dim; at += lanes) direct_value_block<kRows, 1>(values, at, t);
}

template <class T>
void direct_values(const AttentionProblem& problem, const RowStep<T>& step, int count, int rows,
                   const FlashScratch& scratch) {
  const std::int64_t dim = problem.dim_v;
  Product t{.a = scratch.p,
            .c = scratch.part.o,
            .c_stride = round_up(dim, kMaxLanes),
            .alpha = scratch.alpha,
            .depth = count};
  for (const T* row : step.next_keys.row) fetch_row(row, problem.dim_qk);
  for (int left = rows; left > 0;) {
    const int block = left >= 4 ? 4 : left >= 2 ? 2 : 1;
    if (block == 4) direct_value_rows<4>(step.values, dim, t);
    if (block == 2) direct_value_rows<2>(step.values, dim, t);
    if (block == 1) direct_value_rows<1>(step.values, dim, t);
    left -= block;
    t.a += block;
    t.alpha += block;
    t.c += block * t.c_stride;
  }
}

}  // namespace tilegate::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
