// SPDX-License-Identifier: Apache-2.0
// fp16 and bf16 conversions over all 65536 values: the value of every bit pattern from the format's
// definition, the way back, and rounding to nearest even at and beside every midpoint.
#include "core/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace tilegate {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// What a 16-bit pattern means: `mantissa` stored bits, the rest of the 15 the exponent.
double meaning(std::uint32_t bits, int mantissa) {
  const int exponent_bits = 15 - mantissa;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(bits >> mantissa) & ((1 << exponent_bits) - 1);
  const int fraction = static_cast<int>(bits & ((1u << mantissa) - 1));
  const double sign = (bits & 0x8000u) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - mantissa);
  return sign * std::ldexp(fraction + (1 << mantissa), exponent - bias - mantissa);
}

template <class T>
struct Format;
template <>
struct Format<Half> {
  static constexpr int kMantissa = 10;
  static constexpr std::uint32_t kInfinityBits = 0x7c00;
};
template <>
struct Format<BFloat16> {
  static constexpr int kMantissa = 7;
  static constexpr std::uint32_t kInfinityBits = 0x7f80;
};

template <class T>
class SmallFloat : public ::testing::Test {};
using Formats = ::testing::Types<Half, BFloat16>;
TYPED_TEST_SUITE(SmallFloat, Formats);

TYPED_TEST(SmallFloat, EveryPatternHasItsValue) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const double expected = meaning(bits, Format<TypeParam>::kMantissa);
    const float value = to_float(TypeParam{static_cast<std::uint16_t>(bits)});
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      continue;
    }
    ASSERT_EQ(static_cast<double>(value), expected) << bits;
    ASSERT_EQ(std::signbit(value), std::signbit(expected)) << bits;
  }
}

TYPED_TEST(SmallFloat, EveryPatternComesBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = to_float(TypeParam{static_cast<std::uint16_t>(bits)});
    const TypeParam back = from_float<TypeParam>(value);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(to_float(back))) << bits;
      continue;
    }
    ASSERT_EQ(back.bits, bits);
  }
}

TYPED_TEST(SmallFloat, RoundsToNearestEven) {
  for (std::uint32_t low = 0; low + 1 < Format<TypeParam>::kInfinityBits; ++low) {
    const std::uint32_t high = low + 1;
    const double middle =
        (meaning(low, Format<TypeParam>::kMantissa) + meaning(high, Format<TypeParam>::kMantissa)) /
        2.0;
    const auto exact = static_cast<float>(middle);
    ASSERT_EQ(static_cast<double>(exact), middle) << "midpoints are floats";
    const std::uint32_t even = low % 2 == 0 ? low : high;
    ASSERT_EQ(from_float<TypeParam>(exact).bits, even) << low;
    ASSERT_EQ(from_float<TypeParam>(-exact).bits, even | 0x8000u) << low;
    ASSERT_EQ(from_float<TypeParam>(std::nextafter(exact, 0.0f)).bits, low) << low;
    ASSERT_EQ(from_float<TypeParam>(std::nextafter(exact, kInfinity)).bits, high) << low;
  }
}

TYPED_TEST(SmallFloat, OverflowsToInfinityFromHalfAStepAboveTheLargest) {
  const std::uint32_t infinity = Format<TypeParam>::kInfinityBits;
  const double largest = meaning(infinity - 1, Format<TypeParam>::kMantissa);
  const double step = largest - meaning(infinity - 2, Format<TypeParam>::kMantissa);
  const auto edge = static_cast<float>(largest + step / 2.0);
  EXPECT_EQ(from_float<TypeParam>(edge).bits, infinity);
  EXPECT_EQ(from_float<TypeParam>(std::nextafter(edge, 0.0f)).bits, infinity - 1);
  EXPECT_EQ(from_float<TypeParam>(kInfinity).bits, infinity);
  EXPECT_EQ(from_float<TypeParam>(-kInfinity).bits, infinity | 0x8000u);
  EXPECT_EQ(from_float<TypeParam>(std::numeric_limits<float>::max()).bits, infinity);
}

TYPED_TEST(SmallFloat, TinyValuesKeepTheirSign) {
  EXPECT_EQ(from_float<TypeParam>(-0.0f).bits, 0x8000u);
  EXPECT_EQ(from_float<TypeParam>(1e-45f).bits, 0u);
  EXPECT_EQ(from_float<TypeParam>(-1e-45f).bits, 0x8000u);
}

TYPED_TEST(SmallFloat, NaNStaysNaNWhateverItsPayload) {
  for (const std::uint32_t payload : {0x7f800001u, 0x7fc00000u, 0xffffffffu, 0xff800001u}) {
    EXPECT_TRUE(std::isnan(to_float(from_float<TypeParam>(std::bit_cast<float>(payload)))));
  }
}

}  // namespace
}  // namespace tilegate
