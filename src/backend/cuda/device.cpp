// SPDX-License-Identifier: Apache-2.0
// Device properties, read once a Context.
#include "backend/cuda/device.h"

#include <algorithm>

#include "backend/cuda/check.h"

namespace tilegate {
namespace {

// Share of the memory bus's peak that a device-to-device copy reaches (4.16 to 4.3 of 4.9 TB/s on
// H200).
constexpr double kCopyShare = 0.87;

Result<int> attribute(cudaDeviceAttr which, int index) {
  int value = 0;
  TILEGATE_RETURN_IF_ERROR(
      cuda_status(cudaDeviceGetAttribute(&value, which, index), "reading device attributes"));
  return value;
}

}  // namespace

CudaDeviceScope::CudaDeviceScope(int index) {
  int current = -1;
  if (cudaGetDevice(&current) != cudaSuccess || current == index) return;
  if (cudaSetDevice(index) == cudaSuccess) former_ = current;
}

CudaDeviceScope::~CudaDeviceScope() {
  if (former_ >= 0) (void)cudaSetDevice(former_);
}

Result<DeviceFacts> cuda_device_facts(int index) {
  int count = 0;
  TILEGATE_RETURN_IF_ERROR(cuda_status(cudaGetDeviceCount(&count), "counting CUDA devices"));
  if (index < 0 || index >= count) {
    return invalid("device index must be 0..{}, got {}", count - 1, index);
  }
  const CudaDeviceScope scope(index);
  TILEGATE_RETURN_IF_ERROR(cuda_status(cudaSetDevice(index), "selecting the CUDA device"));
  cudaDeviceProp properties{};
  TILEGATE_RETURN_IF_ERROR(
      cuda_status(cudaGetDeviceProperties(&properties, index), "reading device properties"));
  const Result<int> clock_khz = attribute(cudaDevAttrMemoryClockRate, index);
  if (!clock_khz.ok()) return clock_khz.status();
  const Result<int> bus_bits = attribute(cudaDevAttrGlobalMemoryBusWidth, index);
  if (!bus_bits.ok()) return bus_bits.status();

  DeviceFacts facts;
  facts.type = DeviceType::kCuda;
  facts.name = properties.name;
  facts.num_sms = properties.multiProcessorCount;
  facts.compute_capability = properties.major * 10 + properties.minor;
  const double peak_gbps = 2.0 * *clock_khz * 1e3 * (*bus_bits / 8.0) * 1e-9;
  // Costs are divided by it, and a GPU may keep its memory clock to itself.
  facts.bandwidth_gbps = std::max(kCopyShare * peak_gbps, 1.0);
  if (facts.compute_capability < 80) {
    return unsupported("the GPU must have compute capability 8.0 or newer, got {}.{} ({})",
                       properties.major, properties.minor, facts.name);
  }
  return facts;
}

Result<void*> cuda_allocate_async(std::size_t bytes, void* stream) {
  void* data = nullptr;
  const cudaError_t error = cudaMallocAsync(&data, bytes, static_cast<cudaStream_t>(stream));
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    return static_cast<void*>(nullptr);
  }
  TILEGATE_RETURN_IF_ERROR(cuda_status(error, "allocating the workspace"));
  return data;
}

void cuda_free_async(void* data, void* stream) {
  (void)cudaFreeAsync(data, static_cast<cudaStream_t>(stream));
}

}  // namespace tilegate
