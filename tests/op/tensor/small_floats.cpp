// SPDX-License-Identifier: Apache-2.0
// Both formats by one rule: `mantissa` stored bits, exponents from `min_exponent` (subnormals keep
// its quantum), ties to even through nearbyint.
#include "tests/op/tensor/small_floats.h"

#include <cmath>
#include <limits>

namespace laws {
namespace {

struct Format {
  int mantissa;      // stored bits
  int exponent;      // stored bits
  int min_exponent;  // of the smallest normal number
};
constexpr Format kHalf{10, 5, -14};
constexpr Format kBfloat16{7, 8, -126};

double decode(std::uint16_t bits, Format f) {
  const int stored = (bits >> f.mantissa) & ((1 << f.exponent) - 1);
  const int fraction = bits & ((1 << f.mantissa) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (stored == (1 << f.exponent) - 1) {
    if (fraction != 0) return std::numeric_limits<double>::quiet_NaN();
    return sign * std::numeric_limits<double>::infinity();
  }
  if (stored == 0) return sign * std::ldexp(fraction, f.min_exponent - f.mantissa);
  return sign * std::ldexp(fraction + (1 << f.mantissa), stored - 1 + f.min_exponent - f.mantissa);
}

std::uint16_t encode(double value, Format f) {
  const unsigned infinity = ((1u << f.exponent) - 1) << f.mantissa;
  const unsigned sign = std::signbit(value) ? 0x8000u : 0u;
  if (std::isnan(value)) return static_cast<std::uint16_t>(infinity | (1u << (f.mantissa - 1)));
  const double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return static_cast<std::uint16_t>(sign | infinity);
  if (magnitude == 0.0) return static_cast<std::uint16_t>(sign);
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  exponent = std::max(exponent - 1, f.min_exponent);
  // Counts quanta from the bottom of this binade; a carry moves into the next one by itself.
  const double quanta = std::nearbyint(std::ldexp(magnitude, f.mantissa - exponent));
  const unsigned base = static_cast<unsigned>(exponent - f.min_exponent) << f.mantissa;
  const unsigned bits = base + static_cast<unsigned>(quanta);
  return static_cast<std::uint16_t>(sign | (bits < infinity ? bits : infinity));
}

}  // namespace

double half_to_double(std::uint16_t bits) { return decode(bits, kHalf); }
std::uint16_t double_to_half(double value) { return encode(value, kHalf); }
double bfloat16_to_double(std::uint16_t bits) { return decode(bits, kBfloat16); }
std::uint16_t double_to_bfloat16(double value) { return encode(value, kBfloat16); }

}  // namespace laws
