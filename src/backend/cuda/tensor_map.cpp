// SPDX-License-Identifier: Apache-2.0
// The driver's encoder is found through the runtime, so the library does not link libcuda.
#include "backend/cuda/tensor_map.h"

#include "backend/cuda/check.h"

namespace tilegate {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

Status find_encoder(Encode* encode) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found{};
  constexpr unsigned kFirstVersion = 12000;
  TILEGATE_RETURN_IF_ERROR(
      cuda_status(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, kFirstVersion,
                                                   cudaEnableDefault, &found),
                  "looking up cuTensorMapEncodeTiled"));
  if (entry == nullptr || found != cudaDriverEntryPointSuccess) {
    return unsupported("the driver must provide cuTensorMapEncodeTiled (CUDA 12 or newer)");
  }
  *encode = reinterpret_cast<Encode>(entry);
  return {};
}

CUtensorMapDataType data_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::kBFloat16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    default:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  }
}

}  // namespace

Status make_tensor_map(const TensorMapShape& shape, CUtensorMap* map) {
  Encode encode = nullptr;
  TILEGATE_RETURN_IF_ERROR(find_encoder(&encode));
  std::array<cuuint64_t, 3> stride_bytes{};
  for (int i = 1; i < shape.rank; ++i) {
    stride_bytes[i - 1] = shape.strides[i] * static_cast<std::uint64_t>(size_of(shape.dtype));
  }
  const std::array<cuuint32_t, 4> element_strides{1, 1, 1, 1};
  const CUresult result =
      encode(map, data_type(shape.dtype), static_cast<cuuint32_t>(shape.rank), shape.data,
             shape.dims.data(), stride_bytes.data(), shape.box.data(), element_strides.data(),
             CU_TENSOR_MAP_INTERLEAVE_NONE,
             shape.swizzle_128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    return Status(StatusCode::kCuda,
                  fmt::format("encoding a tensor map of rank {} failed with driver code {}",
                              shape.rank, static_cast<int>(result)));
  }
  return {};
}

}  // namespace tilegate
