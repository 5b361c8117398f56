// SPDX-License-Identifier: Apache-2.0
// TensorView: a pointer with a dtype, a shape, strides (in elements) and a device. It owns nothing.
// A default-constructed view is an absent argument.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string_view>

namespace tilegate {

enum class DType : std::uint8_t { kFloat32, kFloat16, kBFloat16, kInt32, kInt64, kUInt8, kBool };

constexpr std::int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return 4;
    case DType::kFloat16:
      return 2;
    case DType::kBFloat16:
      return 2;
    case DType::kInt32:
      return 4;
    case DType::kInt64:
      return 8;
    case DType::kUInt8:
      return 1;
    case DType::kBool:
      return 1;
  }
  return 0;
}

constexpr std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float32";
    case DType::kFloat16:
      return "float16";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kInt32:
      return "int32";
    case DType::kInt64:
      return "int64";
    case DType::kUInt8:
      return "uint8";
    case DType::kBool:
      return "bool";
  }
  return "unknown";
}

enum class DeviceType : std::uint8_t { kCpu, kCuda };

struct Device {
  DeviceType type = DeviceType::kCpu;
  int index = 0;
  bool operator==(const Device&) const = default;
};

inline constexpr int kMaxRank = 6;

struct TensorView {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
  Device device;
  int rank = 0;                                  // 0: the argument is absent
  std::array<std::int64_t, kMaxRank> shape{};    // entries past rank are 0
  std::array<std::int64_t, kMaxRank> strides{};  // in elements

  bool present() const { return rank > 0; }
  std::int64_t numel() const {
    std::int64_t n = rank > 0 ? 1 : 0;
    for (int i = 0; i < rank; ++i) n *= shape[i];
    return n;
  }
  bool operator==(const TensorView&) const = default;

  // A row-major view without gaps. A stride past 64 bits is the largest number of 64 bits: calls
  // refuse so many elements.
  static TensorView packed(void* data, DType dtype, std::initializer_list<std::int64_t> dims,
                           Device device = {}) {
    TensorView view;
    view.data = data;
    view.dtype = dtype;
    view.device = device;
    for (std::int64_t dim : dims) {
      if (view.rank == kMaxRank) break;
      view.shape[view.rank++] = dim;
    }
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    std::int64_t stride = 1;
    for (int i = view.rank - 1; i >= 0; --i) {
      view.strides[i] = stride;
      const std::int64_t dim = view.shape[i] > 0 ? view.shape[i] : 1;
      stride = stride > kMost / dim ? kMost : stride * dim;
    }
    return view;
  }
};

}  // namespace tilegate
