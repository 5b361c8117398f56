// SPDX-License-Identifier: Apache-2.0
// One report a tensor: the first element that breaks the rule, so that a wrong kernel does not
// print a line for each of a million elements.
#include "tests/op/harness/compare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace laws {

using tilegate::DType;

// Reasons. fp32: sums of a few hundred terms in another order. fp16 and bf16: half an ulp of the
// stored result is 2^-12 and 2^-9; probabilities and the delta rule's intermediates may be rounded
// to the same dtype before a matrix product, which a recurrence adds up over its tokens. LSE is
// fp32 from fp32 sums in every dtype. States are compared at their storage's or inputs' precision.
Tolerance tolerance(Quantity quantity, DType storage) {
  const int row = storage == DType::kFloat32 ? 0 : storage == DType::kFloat16 ? 1 : 2;
  switch (quantity) {
    case Quantity::kAttention: {
      constexpr Tolerance kTable[] = {{1e-5, 1e-4}, {1.5e-3, 6e-3}, {8e-3, 2.5e-2}};
      return kTable[row];
    }
    case Quantity::kLse: {
      constexpr Tolerance kTable[] = {{1e-5, 1e-4}, {1e-4, 1e-3}, {1e-3, 5e-3}};
      return kTable[row];
    }
    case Quantity::kDelta:
    case Quantity::kState: {
      constexpr Tolerance kTable[] = {{2e-5, 2e-4}, {2.5e-3, 1e-2}, {1.2e-2, 4e-2}};
      return kTable[row];
    }
  }
  return {0.0, 0.0};
}

DType coarser(DType a, DType b) {
  if (a == DType::kBFloat16 || b == DType::kBFloat16) return DType::kBFloat16;
  if (a == DType::kFloat16 || b == DType::kFloat16) return DType::kFloat16;
  return DType::kFloat32;
}

std::vector<double> values(const Tensor& tensor) {
  std::vector<double> result(static_cast<std::size_t>(tensor.numel()));
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i] = tensor.flat(static_cast<std::int64_t>(i));
  }
  return result;
}

void expect_close(const Tensor& actual, const std::vector<double>& expected, Tolerance tolerance,
                  const std::string& label) {
  ASSERT_EQ(actual.numel(), static_cast<std::int64_t>(expected.size())) << label;
  double error = 0.0, square = 0.0, largest_error = 0.0, largest = 0.0;
  std::int64_t worst = 0;
  for (std::size_t n = 0; n < expected.size(); ++n) {
    const auto i = static_cast<std::int64_t>(n);
    const double x = actual.flat(i), e = expected[n];
    if (!std::isfinite(e) || !std::isfinite(x)) {
      const bool same = std::isnan(e) ? std::isnan(x) : x == e;
      ASSERT_TRUE(same) << label << ": element " << i << " of " << to_string(actual.shape())
                        << " is " << x << ", must be " << e;
      continue;
    }
    error += (x - e) * (x - e);
    square += e * e;
    largest = std::max(largest, std::fabs(e));
    if (std::fabs(x - e) > largest_error) {
      largest_error = std::fabs(x - e);
      worst = i;
    }
  }
  if (square > 0.0) {
    EXPECT_LE(std::sqrt(error / square), tolerance.rel_rms)
        << label << ": relative rms error; worst element " << worst << " of "
        << to_string(actual.shape()) << " is " << actual.flat(worst) << ", must be "
        << expected[static_cast<std::size_t>(worst)];
  }
  EXPECT_LE(largest_error, tolerance.max_rel * std::max(largest, 0.1))
      << label << ": element " << worst << " of " << to_string(actual.shape());
}

void expect_close(const Tensor& actual, const Tensor& expected, Tolerance tolerance,
                  const std::string& label) {
  expect_close(actual, values(expected), tolerance, label);
}

void expect_same_bits(const Tensor& actual, const Tensor& expected, const std::string& label) {
  ASSERT_EQ(actual.shape(), expected.shape()) << label;
  ASSERT_EQ(actual.dtype(), expected.dtype()) << label;
  for (std::int64_t i = 0; i < actual.numel(); ++i) {
    ASSERT_EQ(actual.bits(i), expected.bits(i))
        << label << ": element " << i << " of " << to_string(actual.shape()) << " is "
        << actual.flat(i) << ", must be bitwise " << expected.flat(i);
  }
}

void expect_all(const Tensor& actual, double value, const std::string& label) {
  for (std::int64_t i = 0; i < actual.numel(); ++i) {
    ASSERT_EQ(actual.flat(i), value)
        << label << ": element " << i << " of " << to_string(actual.shape());
  }
}

void expect_untouched(const Tensor& actual, const std::string& label) {
  const std::int64_t bits = 8 * tilegate::size_of(actual.dtype());
  const std::uint64_t poison = bits == 64 ? ~0ull : (1ull << bits) - 1;
  for (std::int64_t i = 0; i < actual.numel(); ++i) {
    ASSERT_EQ(actual.bits(i), poison)
        << label << ": element " << i << " of " << to_string(actual.shape()) << " was written";
  }
}

}  // namespace laws
