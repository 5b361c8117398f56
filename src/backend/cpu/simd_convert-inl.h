// SPDX-License-Identifier: Apache-2.0
// Rows of fp32, fp16 or bf16 elements to and from fp32, for every SIMD target. fp32 -> 16 bit
// rounds to nearest even. Lengths are any; vectors of 8 lanes take what is left of wider ones.
#if defined(TILEGATE_CPU_SIMD_CONVERT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TILEGATE_CPU_SIMD_CONVERT_INL_H_
#undef TILEGATE_CPU_SIMD_CONVERT_INL_H_
#else
#define TILEGATE_CPU_SIMD_CONVERT_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "core/half.h"

// Without hardware conversions the scalar ones of core/half.h are used: they round as specified.
#undef TILEGATE_SIMD_HALF
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
#define TILEGATE_SIMD_HALF 0
#else
#define TILEGATE_SIMD_HALF 1
#endif

HWY_BEFORE_NAMESPACE();
namespace tilegate::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> load_as_float(D d, const float* from) {
  return hn::LoadU(d, from);
}

template <class D>
HWY_INLINE hn::Vec<D> load_as_float(D d, const BFloat16* from) {
  const hn::Rebind<std::uint16_t, D> d16;
  const hn::Rebind<std::uint32_t, D> d32;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(from));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
}

template <class D>
HWY_INLINE hn::Vec<D> load_as_float(D d, const Half* from) {
  const hn::Rebind<hwy::float16_t, D> d16;
  const hn::Rebind<std::uint16_t, D> du16;
  const auto bits = hn::LoadU(du16, reinterpret_cast<const std::uint16_t*>(from));
  return hn::PromoteTo(d, hn::BitCast(d16, bits));
}

template <class D>
HWY_INLINE void store_float_as(D d, hn::Vec<D> x, float* to) {
  hn::StoreU(x, d, to);
}

template <class D>
HWY_INLINE void store_float_as(D, hn::Vec<D> x, BFloat16* to) {
  const hn::Rebind<std::int32_t, D> d32;
  const hn::Rebind<std::uint16_t, D> d16;
  const auto bits = hn::BitCast(d32, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1));
  const auto rounded = hn::Add(hn::Add(bits, hn::Set(d32, 0x7fff)), odd);
  const auto quiet = hn::Or(bits, hn::Set(d32, 0x400000));
  const auto nan = hn::RebindMask(d32, hn::IsNaN(x));
  // Logical shift: the demotion saturates signed values to [0, 65535].
  const hn::Rebind<std::uint32_t, D> du32;
  const auto high = hn::ShiftRight<16>(hn::BitCast(du32, hn::IfThenElse(nan, quiet, rounded)));
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(d32, high)), d16, reinterpret_cast<std::uint16_t*>(to));
}

template <class D>
HWY_INLINE void store_float_as(D, hn::Vec<D> x, Half* to) {
  const hn::Rebind<hwy::float16_t, D> d16;
  const hn::Rebind<std::uint16_t, D> du16;
  hn::StoreU(hn::BitCast(du16, hn::DemoteTo(d16, x)), du16, reinterpret_cast<std::uint16_t*>(to));
}

// to[0..n) = from[0..n), as fp32.
template <class T>
HWY_INLINE void load_row(const T* from, std::int64_t n, float* to) {
  std::int64_t i = 0;
#if TILEGATE_SIMD_HALF
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 8> d8;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto lanes8 = static_cast<std::int64_t>(hn::Lanes(d8));
  for (; i + lanes <= n; i += lanes) hn::StoreU(load_as_float(d, from + i), d, to + i);
  for (; i + lanes8 <= n; i += lanes8) hn::StoreU(load_as_float(d8, from + i), d8, to + i);
#endif
  for (; i < n; ++i) to[i] = to_float(from[i]);
}

// to[0..n) = from[0..n) * scale, rounded to T.
template <class T>
HWY_INLINE void store_row(const float* from, float scale, std::int64_t n, T* to) {
  std::int64_t i = 0;
#if TILEGATE_SIMD_HALF
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 8> d8;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto lanes8 = static_cast<std::int64_t>(hn::Lanes(d8));
  for (; i + lanes <= n; i += lanes) {
    store_float_as(d, hn::Mul(hn::LoadU(d, from + i), hn::Set(d, scale)), to + i);
  }
  for (; i + lanes8 <= n; i += lanes8) {
    store_float_as(d8, hn::Mul(hn::LoadU(d8, from + i), hn::Set(d8, scale)), to + i);
  }
#endif
  for (; i < n; ++i) to[i] = from_float<T>(from[i] * scale);
}

}  // namespace tilegate::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
