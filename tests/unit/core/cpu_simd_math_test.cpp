// SPDX-License-Identifier: Apache-2.0
// exp2 and tanh of the CPU kernels on every SIMD target this machine has: accuracy against double
// precision, and the exact values that masks and the online softmax rely on.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/unit/core/cpu_simd_math_test.cpp"
#include "backend/cpu/simd_targets.h"
// Per-target code follows.
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include <cstddef>

#include "backend/cpu/simd_convert-inl.h"
#include "backend/cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tilegate::cpu::HWY_NAMESPACE {

// out[i] = f(in[i]); n is a multiple of 16.
void exp2_each(const float* in, std::size_t n, float* out) {
  const hn::ScalableTag<float> d;
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
    hn::StoreU(exp2(d, hn::LoadU(d, in + i)), d, out + i);
  }
}

void tanh_each(const float* in, std::size_t n, float* out) {
  const hn::ScalableTag<float> d;
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
    hn::StoreU(tanh(d, hn::LoadU(d, in + i)), d, out + i);
  }
}

void to_bfloat16(const float* in, std::size_t n, BFloat16* out) {
  store_row(in, 1.0f, static_cast<std::int64_t>(n), out);
}

void to_half(const float* in, std::size_t n, Half* out) {
  store_row(in, 1.0f, static_cast<std::int64_t>(n), out);
}

void from_half(const Half* in, std::size_t n, float* out) {
  load_row(in, static_cast<std::int64_t>(n), out);
}

}  // namespace tilegate::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace tilegate::cpu {
namespace {

HWY_EXPORT(exp2_each);
HWY_EXPORT(tanh_each);
HWY_EXPORT(to_bfloat16);
HWY_EXPORT(to_half);
HWY_EXPORT(from_half);

constexpr float kInf = std::numeric_limits<float>::infinity();

// Runs `body` once with every target that was compiled and that this machine supports.
template <class Body>
void on_every_target(Body body) {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

std::vector<float> exp2_of(std::vector<float> in) {
  const std::size_t n = in.size();
  in.resize((n + 15) / 16 * 16);
  std::vector<float> out(in.size());
  HWY_DYNAMIC_DISPATCH(exp2_each)(in.data(), in.size(), out.data());
  out.resize(n);
  return out;
}

std::vector<float> tanh_of(std::vector<float> in) {
  const std::size_t n = in.size();
  in.resize((n + 15) / 16 * 16);
  std::vector<float> out(in.size());
  HWY_DYNAMIC_DISPATCH(tanh_each)(in.data(), in.size(), out.data());
  out.resize(n);
  return out;
}

TEST(CpuSimdMath, Exp2IsWithinTwoUlp) {
  std::vector<float> in;
  for (int i = 0; i < 40000; ++i) in.push_back(-124.0f + 0.00620003f * static_cast<float>(i));
  on_every_target([&] {
    const std::vector<float> out = exp2_of(in);
    for (std::size_t i = 0; i < in.size(); ++i) {
      const double want = std::exp2(static_cast<double>(in[i]));
      ASSERT_NEAR(out[i] / want, 1.0, 2.4e-7) << in[i];  // 2 units of 2^-23
    }
  });
}

TEST(CpuSimdMath, Exp2IsExactWhereMasksNeedIt) {
  on_every_target([&] {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> out =
        exp2_of({0.0f, -0.0f, -1.0f, -100.0f, -126.0f, -1e30f, -kInf, nan, -nan, 3.0f});
    EXPECT_EQ(out[0], 1.0f);
    EXPECT_EQ(out[1], 1.0f);
    EXPECT_EQ(out[2], 0.5f);
    EXPECT_EQ(out[3], std::exp2(-100.0f));
    for (int i = 4; i < 7; ++i) EXPECT_EQ(out[static_cast<std::size_t>(i)], 0.0f) << i;
    EXPECT_TRUE(std::isnan(out[7]));
    EXPECT_TRUE(std::isnan(out[8]));
    EXPECT_EQ(out[9], 8.0f);
  });
}

TEST(CpuSimdMath, TanhKeepsSmallArgumentsAndSaturates) {
  std::vector<float> in;
  for (int i = 0; i < 20000; ++i) in.push_back(-11.0f + 0.0011f * static_cast<float>(i));
  for (float x = 1e-8f; x < 1.0f; x *= 1.37f) in.push_back(x);
  on_every_target([&] {
    const std::vector<float> out = tanh_of(in);
    for (std::size_t i = 0; i < in.size(); ++i) {
      const double want = std::tanh(static_cast<double>(in[i]));
      ASSERT_NEAR(out[i], want, 4e-7 * std::abs(want)) << in[i];
    }
    const std::vector<float> ends =
        tanh_of({kInf, -kInf, 1e20f, std::numeric_limits<float>::quiet_NaN(), 0.0f});
    EXPECT_EQ(ends[0], 1.0f);
    EXPECT_EQ(ends[1], -1.0f);
    EXPECT_EQ(ends[2], 1.0f);
    EXPECT_TRUE(std::isnan(ends[3]));
    EXPECT_EQ(ends[4], 0.0f);
  });
}

TEST(CpuSimdMath, SixteenBitRowsRoundLikeTheScalarConversions) {
  std::vector<float> in;
  for (int i = 0; i < 3001; ++i)
    in.push_back(std::ldexp(1.0f + 1e-3f * static_cast<float>(i), i % 40 - 26));
  in.insert(in.end(), {0.0f, -0.0f, kInf, -kInf, 65519.0f, 65520.0f, 1e-8f, 3e38f, 1.00390625f});
  in.push_back(std::numeric_limits<float>::quiet_NaN());
  on_every_target([&] {
    std::vector<BFloat16> brain(in.size());
    std::vector<Half> half(in.size());
    std::vector<float> back(in.size());
    HWY_DYNAMIC_DISPATCH(to_bfloat16)(in.data(), in.size(), brain.data());
    HWY_DYNAMIC_DISPATCH(to_half)(in.data(), in.size(), half.data());
    HWY_DYNAMIC_DISPATCH(from_half)(half.data(), half.size(), back.data());
    for (std::size_t i = 0; i + 1 < in.size(); ++i) {
      ASSERT_EQ(brain[i].bits, from_float<BFloat16>(in[i]).bits) << in[i];
      ASSERT_EQ(half[i].bits, from_float<Half>(in[i]).bits) << in[i];
      ASSERT_EQ(back[i], to_float(half[i])) << in[i];
    }
    EXPECT_TRUE(std::isnan(to_float(brain.back())));
    EXPECT_TRUE(std::isnan(back.back()));
  });
}

}  // namespace
}  // namespace tilegate::cpu
#endif  // HWY_ONCE
