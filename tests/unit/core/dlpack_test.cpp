// SPDX-License-Identifier: Apache-2.0
// from_dlpack over a struct of DLTensor's layout.
#include "tilegate/dlpack.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace tilegate {
namespace {

struct FakeDevice {
  int device_type = 1;
  int device_id = 0;
};
struct FakeType {
  std::uint8_t code = 2;
  std::uint8_t bits = 32;
  std::uint16_t lanes = 1;
};
struct FakeTensor {
  void* data = nullptr;
  FakeDevice device;
  int ndim = 0;
  FakeType dtype;
  std::int64_t* shape = nullptr;
  std::int64_t* strides = nullptr;
  std::uint64_t byte_offset = 0;
};

class DlPack : public ::testing::Test {
 protected:
  DlPack() {
    tensor_.data = storage_;
    tensor_.ndim = 3;
    tensor_.shape = shape_;
  }
  float storage_[64] = {};
  std::int64_t shape_[7] = {2, 3, 4, 1, 1, 1, 1};
  std::int64_t strides_[7] = {100, 4, 1, 1, 1, 1, 1};
  FakeTensor tensor_;
};

TEST_F(DlPack, WithoutStridesIsRowMajor) {
  const TensorView view = from_dlpack(tensor_).value();
  EXPECT_EQ(view, TensorView::packed(storage_, DType::kFloat32, {2, 3, 4}));
}

TEST_F(DlPack, KeepsStridesAndOffset) {
  tensor_.strides = strides_;
  tensor_.byte_offset = 16;
  const TensorView view = from_dlpack(tensor_).value();
  EXPECT_EQ(view.data, static_cast<void*>(storage_ + 4));
  EXPECT_EQ(view.strides[0], 100);
  EXPECT_EQ(view.strides[1], 4);
}

TEST_F(DlPack, KnowsEveryDtype) {
  struct Known {
    int code, bits;
    DType dtype;
  };
  for (const Known known :
       {Known{2, 32, DType::kFloat32}, Known{2, 16, DType::kFloat16},
        Known{4, 16, DType::kBFloat16}, Known{0, 32, DType::kInt32}, Known{0, 64, DType::kInt64},
        Known{1, 8, DType::kUInt8}, Known{6, 8, DType::kBool}}) {
    tensor_.dtype.code = static_cast<std::uint8_t>(known.code);
    tensor_.dtype.bits = static_cast<std::uint8_t>(known.bits);
    EXPECT_EQ(from_dlpack(tensor_).value().dtype, known.dtype);
  }
}

TEST_F(DlPack, KnowsDevices) {
  tensor_.device = {2, 3};
  EXPECT_EQ(from_dlpack(tensor_).value().device, (Device{DeviceType::kCuda, 3}));
  tensor_.device = {3, 5};  // pinned host memory
  EXPECT_EQ(from_dlpack(tensor_).value().device, (Device{DeviceType::kCpu, 0}));
  tensor_.device = {10, 0};  // ROCm
  EXPECT_EQ(from_dlpack(tensor_).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(DlPack, RefusesWhatItCannotName) {
  tensor_.ndim = 0;
  EXPECT_NE(from_dlpack(tensor_).status().message().find("got 0"), std::string::npos);
  tensor_.ndim = 7;
  EXPECT_NE(from_dlpack(tensor_).status().message().find("got 7"), std::string::npos);
  tensor_.ndim = 3;
  tensor_.dtype.lanes = 4;
  EXPECT_EQ(from_dlpack(tensor_).status().code(), StatusCode::kInvalidArgument);
  tensor_.dtype = {2, 64, 1};
  const Status status = from_dlpack(tensor_).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("64"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace tilegate
