// SPDX-License-Identifier: Apache-2.0
// The harness's own fp16 and bf16: if they were wrong, every tolerance would be about the wrong
// number. All 65536 patterns come back, and ties go to even.
#include "tests/op/tensor/small_floats.h"

#include <gtest/gtest.h>

#include <cmath>

namespace laws {
namespace {

TEST(SmallFloatsOfTheHarness, EveryPatternComesBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    const double half = half_to_double(pattern), bfloat = bfloat16_to_double(pattern);
    ASSERT_TRUE(std::isnan(half) || double_to_half(half) == bits) << bits;
    ASSERT_TRUE(std::isnan(bfloat) || double_to_bfloat16(bfloat) == bits) << bits;
  }
}

TEST(SmallFloatsOfTheHarness, TiesGoToEven) {
  for (std::uint16_t low = 0; low < 0x7bff; ++low) {
    const double middle =
        (half_to_double(low) + half_to_double(static_cast<std::uint16_t>(low + 1))) / 2.0;
    ASSERT_EQ(double_to_half(middle), low + low % 2) << low;
  }
  for (std::uint16_t low = 0; low < 0x7f7f; ++low) {
    const double middle =
        (bfloat16_to_double(low) + bfloat16_to_double(static_cast<std::uint16_t>(low + 1))) / 2.0;
    ASSERT_EQ(double_to_bfloat16(middle), low + low % 2) << low;
  }
}

TEST(SmallFloatsOfTheHarness, KnownValues) {
  EXPECT_EQ(double_to_half(1.0), 0x3c00);
  EXPECT_EQ(double_to_half(65519.0), 0x7bff);
  EXPECT_EQ(double_to_half(65520.0), 0x7c00);
  EXPECT_EQ(double_to_bfloat16(-2.0), 0xc000);
  EXPECT_EQ(half_to_double(0x0001), 0x1p-24);
  EXPECT_TRUE(std::isnan(half_to_double(double_to_half(std::nan("")))));
}

}  // namespace
}  // namespace laws
