// SPDX-License-Identifier: Apache-2.0
// Status, Result and the texts of errors.
#include "core/message.h"

#include <gtest/gtest.h>

#include <memory>

namespace tilegate {
namespace {

TEST(Message, NamesWantedAndGiven) {
  const Status status = invalid("{} must be {}, got {}", "q", 3, 4);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "q must be 3, got 4");
  EXPECT_EQ(status.to_string(), "invalid_argument: q must be 3, got 4");
  EXPECT_EQ(unsupported("no {}", "kernel").code(), StatusCode::kUnsupported);
}

TEST(Message, DescribesTensors) {
  const TensorView view = TensorView::packed(nullptr, DType::kBFloat16, {12, 8, 128});
  EXPECT_EQ(describe_tensor(view), "bfloat16 [12, 8, 128]");
  EXPECT_EQ(describe_shape(view), "[12, 8, 128]");
  EXPECT_EQ(describe_tensor({}), "absent");
  EXPECT_EQ(describe_shape({}), "[]");
}

Status fails_on(int bad, int value) {
  if (value == bad) return invalid("value must not be {}, got {}", bad, value);
  return {};
}

Status first_failure(int value) {
  TILEGATE_RETURN_IF_ERROR(fails_on(1, value));
  TILEGATE_RETURN_IF_ERROR(fails_on(2, value));
  return {};
}

TEST(Message, ReturnIfErrorStopsAtTheFirst) {
  EXPECT_TRUE(first_failure(0).ok());
  EXPECT_EQ(first_failure(1).message(), "value must not be 1, got 1");
  EXPECT_EQ(first_failure(2).message(), "value must not be 2, got 2");
}

TEST(StatusType, DefaultIsOk) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.to_string(), "ok");
  EXPECT_NO_THROW(status.throw_if_error());
}

TEST(StatusType, ThrowsItsCodeAndMessage) {
  const Status status(StatusCode::kOutOfWorkspace, "workspace must be larger");
  try {
    status.throw_if_error();
    FAIL() << "an error must throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), StatusCode::kOutOfWorkspace);
    EXPECT_STREQ(error.what(), "out_of_workspace: workspace must be larger");
  }
}

TEST(StatusType, EveryCodeHasItsOwnName) {
  const StatusCode codes[] = {StatusCode::kOk,   StatusCode::kInvalidArgument,
                              StatusCode::kCuda, StatusCode::kOutOfWorkspace,
                              StatusCode::kComm, StatusCode::kUnsupported,
                              StatusCode::kIo,   StatusCode::kCudnn};
  for (const StatusCode a : codes) {
    EXPECT_NE(to_string(a), "unknown");
    for (const StatusCode b : codes) EXPECT_EQ(to_string(a) == to_string(b), a == b);
  }
}

TEST(ResultType, HoldsAValueOrAStatus) {
  Result<int> value = 7;
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(*value, 7);
  EXPECT_EQ(value.value(), 7);
  EXPECT_TRUE(value.status().ok());
  Result<int> error = Status(StatusCode::kIo, "file must exist");
  EXPECT_FALSE(error.ok());
  EXPECT_EQ(error.status().code(), StatusCode::kIo);
  EXPECT_THROW(error.value(), Error);
}

TEST(ResultType, MovesItsValueOut) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(3);
  const std::unique_ptr<int> owned = std::move(result).value();
  EXPECT_EQ(*owned, 3);
}

TEST(TensorViewType, PacksRowMajor) {
  const TensorView view = TensorView::packed(nullptr, DType::kFloat16, {2, 0, 5});
  EXPECT_EQ(view.rank, 3);
  EXPECT_EQ(view.numel(), 0);
  EXPECT_EQ(view.strides[2], 1);
  EXPECT_EQ(view.strides[1], 5);
  EXPECT_FALSE(TensorView{}.present());
  EXPECT_EQ(TensorView{}.numel(), 0);
  EXPECT_EQ(TensorView::packed(nullptr, DType::kInt32, {3, 4}).numel(), 12);
}

}  // namespace
}  // namespace tilegate
