// SPDX-License-Identifier: Apache-2.0
// Tensors in host memory for timing programs: page-aligned, filled with uniform random values.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "tilegate/tilegate.h"

namespace bench {

using tilegate::DType;
using tilegate::TensorView;

inline constexpr std::size_t kAlignment = 4096;

struct Free {
  void operator()(void* p) const { std::free(p); }
};

// Owns tensors of uniform random values.
class Memory {
 public:
  TensorView make(DType dtype, std::initializer_list<std::int64_t> shape, float low, float high) {
    TensorView view = TensorView::packed(nullptr, dtype, shape);
    const auto bytes = static_cast<std::size_t>(view.numel() * size_of(dtype));
    const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    blocks_.emplace_back(std::aligned_alloc(kAlignment, rounded));
    view.data = blocks_.back().get();
    std::uniform_real_distribution<float> uniform(low, high);
    for (std::int64_t i = 0; i < view.numel(); ++i) write(view, i, uniform(random_));
    return view;
  }
  TensorView counting(std::int64_t n, std::int32_t step) {
    TensorView view = make(DType::kInt32, {n}, 0.0f, 0.0f);
    for (std::int64_t i = 0; i < n; ++i) {
      static_cast<std::int32_t*>(view.data)[i] = static_cast<std::int32_t>(i) * step;
    }
    return view;
  }

 private:
  static void write(const TensorView& view, std::int64_t i, float value) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    if (view.dtype == DType::kFloat32) static_cast<float*>(view.data)[i] = value;
    if (view.dtype == DType::kBFloat16) {
      static_cast<std::uint16_t*>(view.data)[i] = static_cast<std::uint16_t>(bits >> 16);
    }
  }
  std::mt19937 random_{1};
  std::vector<std::unique_ptr<void, Free>> blocks_;
};

}  // namespace bench
