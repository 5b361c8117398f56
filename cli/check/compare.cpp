// SPDX-License-Identifier: Apache-2.0
// Sums are fp64; a value that is finite in one and not in the other is a miss, never an error norm.
#include "cli/check/compare.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdint>

namespace tilegate::cli {
namespace {

float widen_half(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const int mantissa = bits & 0x3ff;
  const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 0x1f) return mantissa != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  return sign * std::ldexp(static_cast<float>(mantissa + 0x400), exponent - 25);
}

float value_at(const TensorView& view, std::int64_t i) {
  if (view.dtype == DType::kFloat32) return static_cast<const float*>(view.data)[i];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(view.data)[i];
  if (view.dtype == DType::kFloat16) return widen_half(bits);
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

enum class Kind { kFinite, kNan, kPlusInfinity, kMinusInfinity };

Kind kind_of(float x) {
  if (std::isnan(x)) return Kind::kNan;
  if (std::isinf(x)) return x > 0 ? Kind::kPlusInfinity : Kind::kMinusInfinity;
  return Kind::kFinite;
}

std::string at_index(const TensorView& view, std::int64_t flat) {
  std::string text;
  for (int i = view.rank - 1; i >= 0; --i) {
    text = fmt::format("{}{}{}", flat % view.shape[i], text.empty() ? "" : ", ", text);
    flat /= view.shape[i];
  }
  return "[" + text + "]";
}

}  // namespace

Comparison compare(const TensorView& output, const TensorView& expected,
                   const Tolerance& tolerance) {
  Comparison result;
  double error_squares = 0.0, squares = 0.0;
  const float* answers = static_cast<const float*>(expected.data);
  std::int64_t finite = 0, worst = 0;
  for (std::int64_t i = 0; i < output.numel(); ++i) {
    const float x = value_at(output, i), e = answers[i];
    const Kind kind = kind_of(e);
    if (kind_of(x) != kind) {
      result.miss = fmt::format("is {} where {} is expected at {}", x, e, at_index(output, i));
      return result;
    }
    if (kind != Kind::kFinite) continue;
    const double error = std::abs(static_cast<double>(x) - static_cast<double>(e));
    if (error > result.max_abs) worst = i;
    result.max_abs = std::max(result.max_abs, error);
    error_squares += error * error;
    squares += static_cast<double>(e) * static_cast<double>(e);
    ++finite;
  }
  if (squares > 0) result.rel_rms = std::sqrt(error_squares / squares);
  if (finite == 0) return result;
  if (squares > 0 && result.rel_rms > tolerance.rel_rms) {
    result.miss = fmt::format("rel_rms {:.2e} > {:.2e}", result.rel_rms, tolerance.rel_rms);
  } else if (result.max_abs > tolerance.max_abs) {
    result.miss = fmt::format("max_abs {:.2e} > {:.2e} at {}", result.max_abs, tolerance.max_abs,
                              at_index(output, worst));
  }
  return result;
}

}  // namespace tilegate::cli
