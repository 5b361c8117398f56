// SPDX-License-Identifier: Apache-2.0
// fp16 and bf16 as 16-bit storage: conversions to and from fp32, round to nearest even. Scalar and
// portable; SIMD code has its own paths.
#pragma once

#include <bit>
#include <cstdint>

namespace tilegate {

struct Half {
  std::uint16_t bits = 0;
};
struct BFloat16 {
  std::uint16_t bits = 0;
};

inline float to_float(float x) { return x; }

inline float to_float(BFloat16 x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}

inline float to_float(Half x) {
  const std::uint32_t sign = static_cast<std::uint32_t>(x.bits & 0x8000u) << 16;
  const std::uint32_t exponent = (x.bits >> 10) & 0x1fu;
  const std::uint32_t mantissa = x.bits & 0x3ffu;
  if (exponent == 0x1fu) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  constexpr float kSubnormalUnit = 5.9604644775390625e-8f;  // 2^-24
  const float magnitude = static_cast<float>(mantissa) * kSubnormalUnit;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
}

template <class T>
T from_float(float x);

template <>
inline float from_float<float>(float x) {
  return x;
}

template <>
inline BFloat16 from_float<BFloat16>(float x) {
  const std::uint32_t u = std::bit_cast<std::uint32_t>(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>((u >> 16) | 0x40u)};
  return {static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}

template <>
inline Half from_float<Half>(float x) {
  const std::uint32_t u = std::bit_cast<std::uint32_t>(x);
  const std::uint16_t sign = static_cast<std::uint16_t>((u >> 16) & 0x8000u);
  const std::uint32_t magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {static_cast<std::uint16_t>(sign | 0x7e00u)};
  if (magnitude >= 0x477ff000u) return {static_cast<std::uint16_t>(sign | 0x7c00u)};  // >= 65520
  if (magnitude < 0x38800000u) {  // below 2^-14: subnormal; adding 0.5 rounds at bit 2^-24
    const float rounded = std::bit_cast<float>(magnitude) + 0.5f;
    const std::uint32_t mantissa = std::bit_cast<std::uint32_t>(rounded) - 0x3f000000u;
    return {static_cast<std::uint16_t>(sign | mantissa)};
  }
  const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return {static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13))};
}

}  // namespace tilegate
