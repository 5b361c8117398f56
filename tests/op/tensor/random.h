// SPDX-License-Identifier: Apache-2.0
// Random numbers for the tests: splitmix64 with a fixed seed, the same on every machine.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include "tests/op/tensor/tensor.h"

namespace laws {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ull + 1) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  double uniform(double low = 0.0, double high = 1.0) {
    return low + (high - low) * static_cast<double>(next() >> 11) * 0x1p-53;
  }
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(n));
  }
  double normal() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    return radius * std::cos(2.0 * std::numbers::pi * uniform());
  }
  std::vector<std::int64_t> permutation(std::int64_t n) {
    std::vector<std::int64_t> order(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) order[static_cast<std::size_t>(i)] = i;
    for (std::int64_t i = n - 1; i > 0; --i) {
      std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(below(i + 1))]);
    }
    return order;
  }

  Tensor normals(Tensor tensor, double scale = 1.0) {
    for (std::int64_t i = 0; i < tensor.numel(); ++i) tensor.set_flat(i, scale * normal());
    return tensor;
  }
  Tensor uniforms(Tensor tensor, double low, double high) {
    for (std::int64_t i = 0; i < tensor.numel(); ++i) tensor.set_flat(i, uniform(low, high));
    return tensor;
  }
  // Rows of the innermost dimension have length one before rounding.
  Tensor unit_rows(Tensor tensor) {
    const std::int64_t width = tensor.shape().back();
    std::vector<double> row(static_cast<std::size_t>(width));
    for (std::int64_t r = 0; r * width < tensor.numel(); ++r) {
      double sum = 0.0;
      for (double& x : row) {
        x = normal();
        sum += x * x;
      }
      for (std::int64_t i = 0; i < width; ++i) {
        tensor.set_flat(r * width + i, row[static_cast<std::size_t>(i)] / std::sqrt(sum));
      }
    }
    return tensor;
  }

 private:
  std::uint64_t state_;
};

}  // namespace laws
