// SPDX-License-Identifier: Apache-2.0
// exp2 and tanh on fp32 vectors, for every SIMD target. Included once a target by files that use
// Highway's foreach_target.
//
// exp2: 2^n p(f) with n the nearest integer and p of degree 6; relative error below 2 units in the
// last place; exp2(0) is exactly 1, below 2^-125 exactly 0, NaN stays NaN.
#if defined(TILEGATE_CPU_SIMD_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TILEGATE_CPU_SIMD_MATH_INL_H_
#undef TILEGATE_CPU_SIMD_MATH_INL_H_
#else
#define TILEGATE_CPU_SIMD_MATH_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace tilegate::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

inline constexpr float kLog2e = 1.44269504088896340736f;

// x = n + f with n an integer and |f| <= 1/2, for |x| < 2^21. Adding 1.5 * 2^23 rounds to an
// integer that sits in the low mantissa bits; the extra 127 makes those bits the exponent of 2^n.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V split_exponent(D d, V x, V* power) {
  const hn::RebindToUnsigned<D> du;
  const V magic = hn::Set(d, 12582912.0f + 127.0f);
  const V shifted = hn::Add(x, magic);
  *power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(du, shifted)));
  return hn::Sub(x, hn::Sub(shifted, magic));
}

// (2^f - 1) / f for |f| <= 1/2.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp2_slope(D d, V f) {
  V p = hn::Set(d, 0.000154531634f);
  p = hn::MulAdd(p, f, hn::Set(d, 0.00133908633f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.00961808302f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.0555035695f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.240226507f));
  return hn::MulAdd(p, f, hn::Set(d, 0.693147182f));
}

// 2^x for x < 128.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp2(D d, V x) {
  V power;
  const V f = split_exponent(d, x, &power);
  const V p = hn::MulAdd(exp2_slope(d, f), f, hn::Set(d, 1.0f));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -125.0f)), hn::Mul(p, power));
}

// tanh(x) = t / (t + 2) with t = exp(2|x|) - 1 formed without cancellation.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V tanh(D d, V x) {
  const V magnitude = hn::Mul(hn::Abs(x), hn::Set(d, 2.0f * kLog2e));
  // 2^40 is infinite for the quotient. Compare and select, so that NaN passes.
  const V limit = hn::Set(d, 40.0f);
  const V y = hn::IfThenElse(hn::Gt(magnitude, limit), limit, magnitude);
  V power;
  const V f = split_exponent(d, y, &power);
  const V t = hn::MulAdd(power, hn::Mul(exp2_slope(d, f), f), hn::Sub(power, hn::Set(d, 1.0f)));
  return hn::CopySignToAbs(hn::Div(t, hn::Add(t, hn::Set(d, 2.0f))), x);
}

}  // namespace tilegate::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
