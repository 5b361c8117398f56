// SPDX-License-Identifier: Apache-2.0
// From a DLPack tensor to a TensorView. A template over DLTensor, so that the library does not
// bring its own dlpack.h: include yours first.
#pragma once

#include <string>

#include "tilegate/status.h"
#include "tilegate/tensor.h"

namespace tilegate {

// `dl` is a DLTensor (data, device, ndim, dtype, shape, strides, byte_offset).
// Errors: invalid_argument for rank 0 or above kMaxRank, vector lanes, an unknown dtype or device.
template <class DLTensorLike>
Result<TensorView> from_dlpack(const DLTensorLike& dl) {
  constexpr int kDlInt = 0, kDlUint = 1, kDlFloat = 2, kDlBfloat = 4, kDlBool = 6;
  constexpr int kDlCpu = 1, kDlCuda = 2, kDlCudaHost = 3, kDlCudaManaged = 13;
  auto bad = [](std::string what) { return Status(StatusCode::kInvalidArgument, std::move(what)); };
  TensorView view;
  if (dl.ndim < 1 || dl.ndim > kMaxRank) {
    return bad("rank must be 1.." + std::to_string(kMaxRank) + ", got " + std::to_string(dl.ndim));
  }
  const int code = static_cast<int>(dl.dtype.code);
  const int bits = static_cast<int>(dl.dtype.bits);
  if (dl.dtype.lanes != 1) return bad("dtype lanes must be 1");
  if (code == kDlFloat && bits == 32)
    view.dtype = DType::kFloat32;
  else if (code == kDlFloat && bits == 16)
    view.dtype = DType::kFloat16;
  else if (code == kDlBfloat && bits == 16)
    view.dtype = DType::kBFloat16;
  else if (code == kDlInt && bits == 32)
    view.dtype = DType::kInt32;
  else if (code == kDlInt && bits == 64)
    view.dtype = DType::kInt64;
  else if (code == kDlUint && bits == 8)
    view.dtype = DType::kUInt8;
  else if (code == kDlBool && bits == 8)
    view.dtype = DType::kBool;
  else
    return bad("dtype must be float32, float16, bfloat16, int32, int64, uint8 or bool, got code " +
               std::to_string(code) + " with " + std::to_string(bits) + " bits");
  const int device = static_cast<int>(dl.device.device_type);
  if (device == kDlCuda || device == kDlCudaManaged)
    view.device.type = DeviceType::kCuda;
  else if (device == kDlCpu || device == kDlCudaHost)
    view.device.type = DeviceType::kCpu;
  else
    return bad("device must be cpu or cuda, got DLPack device " + std::to_string(device));
  view.device.index = view.device.type == DeviceType::kCuda ? dl.device.device_id : 0;
  view.data = static_cast<char*>(dl.data) + dl.byte_offset;
  view.rank = dl.ndim;
  std::int64_t packed = 1;
  for (int i = dl.ndim - 1; i >= 0; --i) {
    view.shape[i] = dl.shape[i];
    view.strides[i] = dl.strides != nullptr ? dl.strides[i] : packed;
    packed *= dl.shape[i] > 0 ? dl.shape[i] : 1;
  }
  return view;
}

}  // namespace tilegate
