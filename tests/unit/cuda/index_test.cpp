// SPDX-License-Identifier: Apache-2.0
// Index tensors as kernels get them: steps in bytes, either way, and those that do not fit.
#include "backend/cuda/index.h"

#include <gtest/gtest.h>

#include <array>

#include "backend/cuda/attention/paged.h"
#include "problem/attention.h"

namespace tilegate {
namespace {

TensorView view_of(std::int64_t* data, std::int64_t entries, std::int64_t stride) {
  TensorView view = TensorView::packed(data, DType::kInt64, {entries});
  view.strides[0] = stride;
  return view;
}

TEST(CudaIndex, StepsAreBytesInBothDirections) {
  std::array<std::int64_t, 4> data{};
  const tile::IndexArray forward = index_array(view_of(data.data(), 4, 1));
  EXPECT_EQ(forward.data, data.data());
  EXPECT_EQ(forward.step, 8);
  EXPECT_EQ(forward.is_int64, 1);
  EXPECT_EQ(index_array(view_of(data.data() + 3, 4, -1)).step, -8);
}

TEST(CudaIndex, AbsentIsNull) { EXPECT_EQ(index_array(TensorView()).data, nullptr); }

TEST(CudaIndex, ALoneEntryMayHaveAnyStride) {
  std::int64_t value = 7;
  const TensorView lone = view_of(&value, 1, std::int64_t{1} << 40);
  EXPECT_EQ(index_array(lone).step, 0);
  EXPECT_FALSE(index_rejection("kv_lens", lone).has_value());
}

TEST(CudaIndex, StridesPast32BitsAreNamed) {
  std::int64_t value = 7;
  const std::int64_t limit = 2147483647 / 8;
  EXPECT_FALSE(index_rejection("kv_lens", view_of(&value, 2, limit)).has_value());
  EXPECT_FALSE(index_rejection("kv_lens", view_of(&value, 2, -limit)).has_value());
  EXPECT_EQ(index_rejection("kv_lens", view_of(&value, 2, limit + 1)).value(),
            "strides of kv_lens must be at most 268435455 elements, got 268435456 in dimension 0");
}

TEST(CudaIndex, PagesPast32BitsAreNamed) {
  AppendProblem p;
  p.page_size = 2147483647;
  EXPECT_FALSE(page_table_rejection(p).has_value());
  p.page_size += 1;
  EXPECT_EQ(page_table_rejection(p).value(),
            "page_size must be at most 2147483647, got 2147483648");
}

}  // namespace
}  // namespace tilegate
