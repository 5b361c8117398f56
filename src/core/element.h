// SPDX-License-Identifier: Apache-2.0
// Reading and writing single elements of a host tensor whose dtype is known only at run time, and
// turning a run-time dtype into a compile-time type.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/half.h"
#include "tilegate/tensor.h"

namespace tilegate {

template <class T>
struct TypeTag {
  using type = T;
};

// Calls f(TypeTag<float | Half | BFloat16>) for a floating dtype.
template <class F>
decltype(auto) dispatch_float(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kFloat16:
      return f(TypeTag<Half>{});
    case DType::kBFloat16:
      return f(TypeTag<BFloat16>{});
    default:
      return f(TypeTag<float>{});
  }
}

constexpr bool is_float(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat16 || dtype == DType::kBFloat16;
}
constexpr bool is_index(DType dtype) { return dtype == DType::kInt32 || dtype == DType::kInt64; }
constexpr bool is_mask(DType dtype) { return dtype == DType::kUInt8 || dtype == DType::kBool; }

// Element `offset` (in elements) of a floating tensor.
inline float load_float(const void* data, DType dtype, std::int64_t offset) {
  switch (dtype) {
    case DType::kFloat16:
      return to_float(static_cast<const Half*>(data)[offset]);
    case DType::kBFloat16:
      return to_float(static_cast<const BFloat16*>(data)[offset]);
    default:
      return static_cast<const float*>(data)[offset];
  }
}

inline void store_float(void* data, DType dtype, std::int64_t offset, float value) {
  switch (dtype) {
    case DType::kFloat16:
      static_cast<Half*>(data)[offset] = from_float<Half>(value);
      break;
    case DType::kBFloat16:
      static_cast<BFloat16*>(data)[offset] = from_float<BFloat16>(value);
      break;
    default:
      static_cast<float*>(data)[offset] = value;
      break;
  }
}

// Element i of a rank-1 (or the flat element of a packed) index tensor.
inline std::int64_t load_index(const void* data, DType dtype, std::int64_t offset) {
  return dtype == DType::kInt64 ? static_cast<const std::int64_t*>(data)[offset]
                                : static_cast<const std::int32_t*>(data)[offset];
}

inline std::int64_t index_at(const TensorView& view, std::int64_t i) {
  return load_index(view.data, view.dtype, i * view.strides[0]);
}

inline std::int64_t index_at(const TensorView& view, std::int64_t i, std::int64_t j) {
  return load_index(view.data, view.dtype, i * view.strides[0] + j * view.strides[1]);
}

inline bool flag_at(const TensorView& view, std::int64_t i) {
  return static_cast<const std::uint8_t*>(view.data)[i * view.strides[0]] != 0;
}

}  // namespace tilegate
