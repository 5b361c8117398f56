// SPDX-License-Identifier: Apache-2.0
// Plain cudaMalloc, cudaMemcpy and cudaMemset with checked results. The caller's current device is
// the same afterwards.
#include "backend/cuda/check.h"
#include "backend/cuda/device.h"

namespace tilegate {
namespace {

// Checked, which a scope is not.
Status select(int device) {
  return cuda_status(cudaSetDevice(device), "selecting the CUDA device");
}

}  // namespace

Result<void*> cuda_allocate(int device, std::size_t bytes) {
  const CudaDeviceScope scope(device);
  TILEGATE_RETURN_IF_ERROR(select(device));
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, bytes > 0 ? bytes : 1);
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    return Status(
        StatusCode::kOutOfWorkspace,
        fmt::format("device memory could not be had: {} bytes on CUDA device {}", bytes, device));
  }
  TILEGATE_RETURN_IF_ERROR(cuda_status(error, "allocating device memory"));
  return data;
}

void cuda_free(int device, void* data) {
  const CudaDeviceScope scope(device);
  if (cudaSetDevice(device) == cudaSuccess) (void)cudaFree(data);
}

Status cuda_copy(int device, void* destination, const void* source, std::size_t bytes) {
  const CudaDeviceScope scope(device);
  TILEGATE_RETURN_IF_ERROR(select(device));
  TILEGATE_RETURN_IF_ERROR(
      cuda_status(cudaMemcpy(destination, source, bytes, cudaMemcpyDefault), "copying memory"));
  // A copy from pageable memory may return before its bytes have arrived, and streams that do not
  // follow the default one would not wait for them.
  return cuda_status(cudaStreamSynchronize(nullptr), "copying memory");
}

Status cuda_fill(int device, void* destination, int byte, std::size_t bytes) {
  const CudaDeviceScope scope(device);
  TILEGATE_RETURN_IF_ERROR(select(device));
  TILEGATE_RETURN_IF_ERROR(cuda_status(cudaMemset(destination, byte, bytes), "filling memory"));
  return cuda_synchronize(device);
}

Status cuda_synchronize(int device) {
  const CudaDeviceScope scope(device);
  TILEGATE_RETURN_IF_ERROR(select(device));
  return cuda_status(cudaDeviceSynchronize(), "waiting for the device");
}

}  // namespace tilegate
