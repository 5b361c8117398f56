// SPDX-License-Identifier: Apache-2.0
// Views that name the same elements have the same canonical strides.
#include "core/layout.h"

#include <gtest/gtest.h>

#include <limits>

#include "problem/problem.h"
#include "tests/unit/linear/call.h"

namespace tilegate {
namespace {

TensorView with_strides(std::initializer_list<std::int64_t> shape,
                        std::array<std::int64_t, kMaxRank> strides) {
  TensorView view = fp32(shape);
  view.strides = strides;
  return view;
}

TEST(Packed, HugeDimensionsDoNotOverflow) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const TensorView view = TensorView::packed(nullptr, DType::kFloat32, {2, kMost, 3, 4});
  EXPECT_EQ(view.strides[3], 1);
  EXPECT_EQ(view.strides[2], 4);
  EXPECT_EQ(view.strides[1], 12);
  EXPECT_EQ(view.strides[0], kMost);
}

TEST(CanonicalStrides, KeepsTheStridesThatAddressElements) {
  const TensorView view = with_strides({3, 4, 5}, {1000, 7, 1});
  EXPECT_EQ(canonical_strides(view), view);
  const TensorView expanded = with_strides({3, 4, 5}, {0, 0, 1});
  EXPECT_EQ(canonical_strides(expanded), expanded);
}

TEST(CanonicalStrides, ReplacesThoseOfOneElement) {
  EXPECT_EQ(canonical_strides(with_strides({1, 4, 1}, {-3, 7, 99})),
            with_strides({1, 4, 1}, {28, 7, 1}));
  EXPECT_EQ(canonical_strides(with_strides({3, 1, 5}, {1000, 0, 1})),
            with_strides({3, 1, 5}, {1000, 5, 1}));
}

TEST(CanonicalStrides, PacksViewsWithoutElements) {
  EXPECT_EQ(canonical_strides(with_strides({0, 4, 5}, {1, 1, 1})), fp32({0, 4, 5}));
  EXPECT_EQ(canonical_strides({}), TensorView{});
}

TEST(CanonicalStrides, OneProblemForAllStridesOfOneElement) {
  LinearCall call = gdn_call();
  call.args.q = call.args.k = bf16({1, 2, 8});
  call.args.v = call.args.o = bf16({1, 4, 16});
  call.args.g = call.args.beta = fp32({1, 4});
  const Result<Operation> first = normalise(call.args, call.options, call.rule);
  call.args.q.strides[0] = -7;
  call.args.o.strides[0] = 0;
  call.args.g.strides[0] = 12345;
  const Result<Operation> second = normalise(call.args, call.options, call.rule);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(*first, *second);
}

}  // namespace
}  // namespace tilegate
