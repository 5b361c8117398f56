// SPDX-License-Identifier: Apache-2.0
// Index tensors (lengths, offsets, pages, slots) as the kernels take them: any of the two widths,
// any stride that 32 bits hold.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "core/message.h"
#include "kernel/tile/element_params.h"
#include "tilegate/tensor.h"

namespace tilegate {

// Bytes between entries along a dimension, 0 where it is never stepped along.
inline std::int64_t index_step(const TensorView& view, int dim) {
  return view.shape[dim] > 1 ? view.strides[dim] * size_of(view.dtype) : 0;
}

// Entries along `dim`.
inline tile::IndexArray index_array(const TensorView& view, int dim = 0) {
  if (!view.present()) return {};
  return {view.data, static_cast<std::int32_t>(index_step(view, dim)),
          view.dtype == DType::kInt64 ? 1 : 0};
}

// A reason unless index_array() can hold the stride.
inline std::optional<std::string> index_rejection(const char* name, const TensorView& view,
                                                  int dim = 0) {
  constexpr std::int64_t kMaxStep = std::numeric_limits<std::int32_t>::max();
  if (!view.present()) return std::nullopt;
  const std::int64_t limit = kMaxStep / size_of(view.dtype);
  const std::int64_t stride = view.shape[dim] > 1 ? view.strides[dim] : 0;
  if (stride >= -limit && stride <= limit) return std::nullopt;
  return fmt::format("strides of {} must be at most {} elements, got {} in dimension {}", name,
                     limit, stride, dim);
}

}  // namespace tilegate
