// SPDX-License-Identifier: Apache-2.0
// Checks and rearrangements of tensor views: ranks, dtypes, contiguity, overlap. No op is known
// here.
#pragma once

#include <initializer_list>
#include <string_view>

#include "core/message.h"
#include "tilegate/tensor.h"

namespace tilegate {

// A tensor argument with the name its errors use.
struct Named {
  std::string_view name;
  const TensorView& view;
};

Status require_present(const Named& tensor);
Status require_rank(const Named& tensor, int rank);
Status require_dtype(const Named& tensor, DType dtype);
Status require_float(const Named& tensor);
Status require_index(const Named& tensor);  // int32 or int64
Status require_mask(const Named& tensor);   // uint8 or bool
// Shapes, entry by entry; -1 in `shape` accepts anything.
Status require_shape(const Named& tensor, std::initializer_list<std::int64_t> shape);
// The innermost stride is 1 (or that dimension has at most one element).
Status require_inner_contiguous(const Named& tensor);
// Strides positive and no two elements in one place (dimensions of size <= 1 are free).
Status require_writable_strides(const Named& tensor);

// The same elements with strides that hold nothing accidental: a dimension of size 1 gets the
// extent of the one inside it, and a view without elements gets packed strides.
TensorView canonical_strides(TensorView view);

// Drops dimension `axis`, which has size 1.
TensorView drop_axis(TensorView view, int axis);
// Inserts a dimension of size 1 before `axis`.
TensorView insert_axis(TensorView view, int axis);
// Splits dimension `axis` of size outer * inner into [outer, inner].
TensorView split_axis(TensorView view, int axis, std::int64_t outer);
TensorView swap_axes(TensorView view, int a, int b);
// The slice `index` of dimension `axis`, without that dimension.
TensorView select(TensorView view, int axis, std::int64_t index);

}  // namespace tilegate
