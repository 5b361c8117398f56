// SPDX-License-Identifier: Apache-2.0
// Two calls of the library, each next to the same formula in plain loops over doubles.
#pragma once

#include <tilegate/tilegate.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

// Largest |library - loops| of each call. Errors: what the library said.
tilegate::Result<double> attention_error(tilegate::Context& context);
tilegate::Result<double> delta_rule_error(tilegate::Context& context);

inline std::vector<float> random_values(std::size_t count, float low, float high, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> distribution(low, high);
  std::vector<float> values(count);
  for (float& value : values) value = distribution(generator);
  return values;
}

inline double largest_difference(const std::vector<float>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}
