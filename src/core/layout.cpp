// SPDX-License-Identifier: Apache-2.0
// View checks and rearrangements.
#include "core/layout.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/element.h"

namespace tilegate {

Status require_present(const Named& tensor) {
  if (tensor.view.present()) return {};
  return invalid("{} must be given, got none", tensor.name);
}

Status require_rank(const Named& tensor, int rank) {
  TILEGATE_RETURN_IF_ERROR(require_present(tensor));
  if (tensor.view.rank == rank) return {};
  return invalid("{} must have rank {}, got {}", tensor.name, rank, describe_shape(tensor.view));
}

Status require_dtype(const Named& tensor, DType dtype) {
  if (tensor.view.dtype == dtype) return {};
  return invalid("{} must be {}, got {}", tensor.name, to_string(dtype),
                 to_string(tensor.view.dtype));
}

Status require_float(const Named& tensor) {
  if (is_float(tensor.view.dtype)) return {};
  return invalid("{} must be float32, float16 or bfloat16, got {}", tensor.name,
                 to_string(tensor.view.dtype));
}

Status require_index(const Named& tensor) {
  if (is_index(tensor.view.dtype)) return {};
  return invalid("{} must be int32 or int64, got {}", tensor.name, to_string(tensor.view.dtype));
}

Status require_mask(const Named& tensor) {
  if (is_mask(tensor.view.dtype)) return {};
  return invalid("{} must be uint8 or bool, got {}", tensor.name, to_string(tensor.view.dtype));
}

Status require_shape(const Named& tensor, std::initializer_list<std::int64_t> shape) {
  TILEGATE_RETURN_IF_ERROR(require_present(tensor));
  bool same = tensor.view.rank == static_cast<int>(shape.size());
  int axis = 0;
  for (std::int64_t want : shape) {
    if (!same) break;
    same = want < 0 || tensor.view.shape[axis] == want;
    ++axis;
  }
  if (same) return {};
  std::string text;
  for (std::int64_t want : shape) {
    if (!text.empty()) text += ", ";
    text += want < 0 ? "any" : fmt::format("{}", want);
  }
  return invalid("{} must have shape [{}], got {}", tensor.name, text, describe_shape(tensor.view));
}

Status require_inner_contiguous(const Named& tensor) {
  const int last = tensor.view.rank - 1;
  if (last < 0 || tensor.view.shape[last] <= 1 || tensor.view.strides[last] == 1) return {};
  return invalid("{} must have innermost stride 1, got {}", tensor.name, tensor.view.strides[last]);
}

Status require_writable_strides(const Named& tensor) {
  const TensorView& view = tensor.view;
  if (view.numel() == 0) return {};
  std::vector<int> order(static_cast<std::size_t>(view.rank));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return view.strides[a] < view.strides[b]; });
  std::int64_t span = 1;  // elements from the first to the last touched by inner dimensions
  for (int axis : order) {
    if (view.shape[axis] <= 1) continue;
    if (view.strides[axis] <= 0) {
      return invalid("{} must have positive strides, got {} in dimension {}", tensor.name,
                     view.strides[axis], axis);
    }
    if (view.strides[axis] < span) {
      return invalid(
          "{} must not overlap itself: stride of dimension {} must be at least {}, got {}",
          tensor.name, axis, span, view.strides[axis]);
    }
    span += view.strides[axis] * (view.shape[axis] - 1);
  }
  return {};
}

TensorView canonical_strides(TensorView view) {
  const bool empty = view.numel() == 0;
  std::int64_t extent = 1;  // of the dimensions inside
  for (int i = view.rank - 1; i >= 0; --i) {
    const std::int64_t size = view.shape[i];
    if (empty || size == 1) view.strides[i] = extent;
    extent = view.strides[i] * std::max<std::int64_t>(size, 1);
  }
  return view;
}

TensorView drop_axis(TensorView view, int axis) {
  for (int i = axis; i + 1 < view.rank; ++i) {
    view.shape[i] = view.shape[i + 1];
    view.strides[i] = view.strides[i + 1];
  }
  --view.rank;
  view.shape[view.rank] = 0;
  view.strides[view.rank] = 0;
  return view;
}

TensorView insert_axis(TensorView view, int axis) {
  if (!view.present()) return view;
  for (int i = view.rank; i > axis; --i) {
    view.shape[i] = view.shape[i - 1];
    view.strides[i] = view.strides[i - 1];
  }
  ++view.rank;
  view.shape[axis] = 1;
  view.strides[axis] = 0;
  return view;
}

TensorView split_axis(TensorView view, int axis, std::int64_t outer) {
  if (!view.present()) return view;
  const std::int64_t inner = outer > 0 ? view.shape[axis] / outer : 0;
  view = insert_axis(view, axis);
  view.shape[axis] = outer;
  view.shape[axis + 1] = inner;
  view.strides[axis] = inner * view.strides[axis + 1];
  return view;
}

TensorView swap_axes(TensorView view, int a, int b) {
  std::swap(view.shape[a], view.shape[b]);
  std::swap(view.strides[a], view.strides[b]);
  return view;
}

TensorView select(TensorView view, int axis, std::int64_t index) {
  if (view.data != nullptr) {
    view.data = static_cast<char*>(view.data) + index * view.strides[axis] * size_of(view.dtype);
  }
  return drop_axis(view, axis);
}

}  // namespace tilegate
