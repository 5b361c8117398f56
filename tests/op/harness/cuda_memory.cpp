// SPDX-License-Identifier: Apache-2.0
// Device memory for the laws on cuda and cudnn: one allocation a block, copied whole before and
// after every call. Compiled to nothing in a build without CUDA.
#if TILEGATE_TEST_CUDA
#include <cuda_runtime_api.h>

#include <stdexcept>

#include "tests/op/harness/law.h"

namespace laws {
namespace {

void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

class CudaMemory : public Memory {
 public:
  tilegate::Device device() const override { return {tilegate::DeviceType::kCuda, 0}; }
  void* allocate(std::size_t bytes) override {
    void* data = nullptr;
    check(cudaMalloc(&data, bytes));
    return data;
  }
  void release(void* data) override { static_cast<void>(cudaFree(data)); }
  void to_device(void* device, const void* host, std::size_t bytes) override {
    check(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
  }
  void to_host(void* host, const void* device, std::size_t bytes) override {
    check(cudaDeviceSynchronize());
    check(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
  }
};

}  // namespace

Memory& cuda_memory() {
  static CudaMemory memory;
  return memory;
}

}  // namespace laws
#endif
