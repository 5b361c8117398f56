// SPDX-License-Identifier: Apache-2.0
// fp16 and bf16 for the tests, written from the formats' definition and not from the library: a
// value is rounded to a multiple of its quantum, then its bits are read off.
#pragma once

#include <cstdint>

namespace laws {

double half_to_double(std::uint16_t bits);
std::uint16_t double_to_half(double value);
double bfloat16_to_double(std::uint16_t bits);
std::uint16_t double_to_bfloat16(double value);

}  // namespace laws
