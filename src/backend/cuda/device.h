// SPDX-License-Identifier: Apache-2.0
// The GPU as src/api sees it: what a Context learns of it once, and plain memory on it.
#pragma once

#include "plan/candidate.h"

namespace tilegate {

// While it lives device `index` is the calling thread's current one; afterwards the former one is
// again. An index that CUDA refuses changes nothing, and the calls that follow say why.
class CudaDeviceScope {
 public:
  explicit CudaDeviceScope(int index);
  CudaDeviceScope(const CudaDeviceScope&) = delete;
  CudaDeviceScope& operator=(const CudaDeviceScope&) = delete;
  ~CudaDeviceScope();

 private:
  int former_ = -1;  // -1: it was current already
};

// Facts of CUDA device `index`.
// Errors: cuda (no driver or device); invalid_argument (an index past the last one); unsupported
// (older than sm_80).
Result<DeviceFacts> cuda_device_facts(int index);

// Stream-ordered memory of the current device for a one-shot call's workspace; null when it has no
// more. `stream` is a cudaStream_t. Errors: cuda (a stream of another device, no memory pools).
Result<void*> cuda_allocate_async(std::size_t bytes, void* stream);
void cuda_free_async(void* data, void* stream);

// Memory for DeviceBuffer.
Result<void*> cuda_allocate(int device, std::size_t bytes);
void cuda_free(int device, void* data);
// Both ways, and within a device; returns when done.
Status cuda_copy(int device, void* destination, const void* source, std::size_t bytes);
Status cuda_fill(int device, void* destination, int byte, std::size_t bytes);
// Waits for all work of the device.
Status cuda_synchronize(int device);

}  // namespace tilegate
