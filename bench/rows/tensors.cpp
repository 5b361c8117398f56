// SPDX-License-Identifier: Apache-2.0
// Random blocks, their conversion to fp16 and bf16, and the doubling copies that spread them.
#include "bench/rows/tensors.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace tilegate::bench {
namespace {

constexpr std::int64_t kBlockElements = std::int64_t{1} << 20;

std::uint16_t to_bfloat16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

// Rounds half up in magnitude; below the smallest normal number it gives zero.
std::uint16_t to_float16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = bits >> 16 & 0x8000u;
  const std::uint32_t rounded = (bits & 0x7fffffffu) + 0x1000u;
  const std::int32_t exponent = static_cast<std::int32_t>(rounded >> 23) - 127 + 15;
  if (exponent <= 0) return static_cast<std::uint16_t>(sign);
  const std::uint32_t mantissa = rounded >> 13 & 0x3ffu;
  return static_cast<std::uint16_t>(sign | static_cast<std::uint32_t>(exponent) << 10 | mantissa);
}

float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }

void draw(std::vector<float>& block, Values values, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<float> uniform;
  for (float& x : block) {
    switch (values) {
      case Values::kNormal:
      case Values::kUnitRows:
        x = normal(random);
        break;
      case Values::kUniform:
        x = uniform(random);
        break;
      case Values::kForgetSlowly:
        x = sigmoid(normal(random) + 3.0f);
        break;
      case Values::kForgetSlowlyLog:
        x = std::log(sigmoid(normal(random) + 3.0f));
        break;
      case Values::kSteep:
        x = std::exp(-5.0f * uniform(random));
        break;
      case Values::kSteepLog:
        x = -5.0f * uniform(random);
        break;
      case Values::kKdaRate:
        x = std::log1p(1.7f * uniform(random));
        break;
      case Values::kZero:
        x = 0.0f;
        break;
      case Values::kOne:
        x = 1.0f;
        break;
    }
  }
}

void normalise_rows(std::vector<float>& block, std::int64_t row) {
  for (std::size_t begin = 0; begin < block.size(); begin += static_cast<std::size_t>(row)) {
    float squares = 1e-6f;
    for (std::int64_t i = 0; i < row; ++i) {
      squares +=
          block[begin + static_cast<std::size_t>(i)] * block[begin + static_cast<std::size_t>(i)];
    }
    const float scale = 1.0f / std::sqrt(squares);
    for (std::int64_t i = 0; i < row; ++i) block[begin + static_cast<std::size_t>(i)] *= scale;
  }
}

std::vector<char> encode(const std::vector<float>& block, DType dtype) {
  std::vector<char> bytes(block.size() * static_cast<std::size_t>(size_of(dtype)));
  if (dtype == DType::kFloat32) {
    std::memcpy(bytes.data(), block.data(), bytes.size());
    return bytes;
  }
  for (std::size_t i = 0; i < block.size(); ++i) {
    const std::uint16_t half =
        dtype == DType::kBFloat16 ? to_bfloat16(block[i]) : to_float16(block[i]);
    std::memcpy(bytes.data() + 2 * i, &half, sizeof half);
  }
  return bytes;
}

}  // namespace

DeviceBuffer& Tensors::allocate(std::size_t bytes) {
  buffers_.push_back(DeviceBuffer::allocate(stream_.device(), bytes).value());
  return buffers_.back();
}

TensorView Tensors::filled(DType dtype, Dims dims, Values values) {
  TensorView view = TensorView::packed(nullptr, dtype, dims, stream_.device());
  const std::int64_t row = view.shape[static_cast<std::size_t>(view.rank - 1)];
  const std::int64_t whole_rows = std::max<std::int64_t>(1, kBlockElements / row) * row;
  std::vector<float> block(static_cast<std::size_t>(std::min(whole_rows, view.numel())));
  draw(block, values, random_);
  if (values == Values::kUnitRows) normalise_rows(block, row);
  const std::vector<char> bytes = encode(block, dtype);

  const auto total = static_cast<std::size_t>(view.numel() * size_of(dtype));
  DeviceBuffer& buffer = allocate(total);
  buffer.copy_from_host(bytes.data(), bytes.size()).throw_if_error();
  for (std::size_t done = bytes.size(); done < total; done *= 2) {
    enqueue_copy(stream_, buffer, buffer, std::min(done, total - done), done).throw_if_error();
  }
  stream_.synchronize().throw_if_error();
  view.data = buffer.data();
  return view;
}

TensorView Tensors::empty(DType dtype, Dims dims) {
  TensorView view = TensorView::packed(nullptr, dtype, dims, stream_.device());
  view.data = allocate(static_cast<std::size_t>(view.numel() * size_of(dtype))).data();
  return view;
}

TensorView Tensors::indices(const std::vector<std::int32_t>& values, Dims dims) {
  TensorView view = empty(DType::kInt32, dims);
  buffers_.back().copy_from_host(values.data(), values.size() * sizeof values[0]).throw_if_error();
  return view;
}

}  // namespace tilegate::bench
