// SPDX-License-Identifier: Apache-2.0
// Rows of tensors as fp32: load, store, norm, transpose. Lengths are multiples of 8 (K and V are);
// destinations of loads are padded with zeros up to `padded`.
#if defined(TILEGATE_CPU_LINEAR_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TILEGATE_CPU_LINEAR_ROWS_INL_H_
#undef TILEGATE_CPU_LINEAR_ROWS_INL_H_
#else
#define TILEGATE_CPU_LINEAR_ROWS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

#include "backend/cpu/simd_convert-inl.h"
#include "core/element.h"

HWY_BEFORE_NAMESPACE();
namespace tilegate::cpu_linear {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = tilegate::cpu::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using Vec = hn::Vec<F32>;
inline constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(F32()));
inline constexpr std::int64_t kPanel = 2 * kLanes;

HWY_INLINE Vec load(const float* p) { return hn::LoadU(F32(), p); }
HWY_INLINE void store(Vec x, float* p) { hn::StoreU(x, F32(), p); }
HWY_INLINE Vec splat(float x) { return hn::Set(F32(), x); }
// state * decay; a decay of 0 selects 0, since what is forgotten may have been infinite.
HWY_INLINE Vec decayed(Vec state, Vec decay) {
  return hn::IfThenZeroElse(hn::Eq(decay, hn::Zero(F32())), hn::Mul(state, decay));
}
HWY_INLINE float sum_lanes(Vec x) { return hn::GetLane(hn::SumOfLanes(F32(), x)); }

// n floats of a row that starts at element `offset`; the rest up to `padded` becomes zero.
HWY_INLINE void load_row(const TensorView& view, std::int64_t offset, std::int64_t n,
                         std::int64_t padded, float* HWY_RESTRICT out) {
  dispatch_float(view.dtype, [&](auto tag) HWY_ATTR {
    using T = typename decltype(tag)::type;
    simd::load_row(static_cast<const T*>(view.data) + offset, n, out);
  });
  for (std::int64_t i = n; i < padded; ++i) out[i] = 0.0f;
}

// in * scale, rounded to the dtype of the tensor.
HWY_INLINE void store_row(const float* HWY_RESTRICT in, float scale, std::int64_t n,
                          const TensorView& view, std::int64_t offset) {
  dispatch_float(view.dtype, [&](auto tag) HWY_ATTR {
    using T = typename decltype(tag)::type;
    simd::store_row(in, scale, n, static_cast<T*>(view.data) + offset);
  });
}

HWY_INLINE void store_row(const float* HWY_RESTRICT in, std::int64_t n, const TensorView& view,
                          std::int64_t offset) {
  store_row(in, 1.0f, n, view, offset);
}

HWY_INLINE void fill(float* out, std::int64_t n, float value) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = value;
}

// out = a * b; `n` is a multiple of 16.
HWY_INLINE void multiply_rows(const float* a, const float* b, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; i += kLanes) store(hn::Mul(load(a + i), load(b + i)), out + i);
}

HWY_INLINE void scale_row(float* row, float factor, std::int64_t n) {
  const Vec f = splat(factor);
  for (std::int64_t i = 0; i < n; i += kLanes) store(hn::Mul(load(row + i), f), row + i);
}

HWY_INLINE float dot_rows(const float* a, const float* b, std::int64_t n) {
  Vec sum = hn::Zero(F32());
  for (std::int64_t i = 0; i < n; i += kLanes) sum = hn::MulAdd(load(a + i), load(b + i), sum);
  return sum_lanes(sum);
}

// x * rsqrt(sum x^2 + 1e-6), over a row padded with zeros to `n`, a multiple of 16.
HWY_INLINE void normalise_row(float* row, std::int64_t n) {
  const float sum = dot_rows(row, row, n);
  const Vec root = hn::Sqrt(splat(sum + 1e-6f));
  const Vec factor = hn::Div(splat(1.0f), root);
  for (std::int64_t i = 0; i < n; i += kLanes) store(hn::Mul(load(row + i), factor), row + i);
}

// out[c][r] = in[r][c] for 4 rows and `columns` (a multiple of 4) columns.
HWY_INLINE void transpose_rows4(const float* HWY_RESTRICT in, std::int64_t in_pitch,
                                std::int64_t columns, float* HWY_RESTRICT out,
                                std::int64_t out_pitch) {
#if HWY_TARGET == HWY_SCALAR
  for (std::int64_t c = 0; c < columns; ++c) {
    for (std::int64_t r = 0; r < 4; ++r) out[c * out_pitch + r] = in[r * in_pitch + c];
  }
#else
  const hn::FixedTag<float, 4> d4;
  const hn::Repartition<double, decltype(d4)> d2;
  for (std::int64_t c = 0; c < columns; c += 4) {
    const auto r0 = hn::LoadU(d4, in + c);
    const auto r1 = hn::LoadU(d4, in + in_pitch + c);
    const auto r2 = hn::LoadU(d4, in + 2 * in_pitch + c);
    const auto r3 = hn::LoadU(d4, in + 3 * in_pitch + c);
    const auto lo01 = hn::BitCast(d2, hn::InterleaveLower(d4, r0, r1));  // a0 b0 a1 b1
    const auto lo23 = hn::BitCast(d2, hn::InterleaveLower(d4, r2, r3));
    const auto hi01 = hn::BitCast(d2, hn::InterleaveUpper(d4, r0, r1));
    const auto hi23 = hn::BitCast(d2, hn::InterleaveUpper(d4, r2, r3));
    float* o = out + c * out_pitch;
    hn::StoreU(hn::BitCast(d4, hn::InterleaveLower(d2, lo01, lo23)), d4, o);
    hn::StoreU(hn::BitCast(d4, hn::InterleaveUpper(d2, lo01, lo23)), d4, o + out_pitch);
    hn::StoreU(hn::BitCast(d4, hn::InterleaveLower(d2, hi01, hi23)), d4, o + 2 * out_pitch);
    hn::StoreU(hn::BitCast(d4, hn::InterleaveUpper(d2, hi01, hi23)), d4, o + 3 * out_pitch);
  }
#endif
}

// The reverse: out[r][c] = in[c][r] for 4 rows.
HWY_INLINE void transpose_columns4(const float* HWY_RESTRICT in, std::int64_t in_pitch,
                                   std::int64_t columns, float* HWY_RESTRICT out,
                                   std::int64_t out_pitch) {
  for (std::int64_t c = 0; c < columns; c += 4) {
    transpose_rows4(in + c * in_pitch, in_pitch, 4, out + c, out_pitch);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tilegate::cpu_linear
HWY_AFTER_NAMESPACE();

#endif  // TILEGATE_CPU_LINEAR_ROWS_INL_H_
