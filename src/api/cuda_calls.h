// SPDX-License-Identifier: Apache-2.0
// The CUDA calls that src/api makes. In a build without CUDA each says so, or does nothing where
// nothing can have been made before.
#pragma once

#include <optional>

#include "core/message.h"
#ifdef TILEGATE_HAVE_CUDA
#include "backend/cuda/device.h"
#include "backend/cuda/stream.h"
#else
#include "tilegate/device_timing.h"
#endif

namespace tilegate {

#ifndef TILEGATE_HAVE_CUDA
inline Status no_cuda() {
  return unsupported("the CUDA device is not available in this build: {}", TILEGATE_CUDA_REASON);
}

class CudaDeviceScope {
 public:
  explicit CudaDeviceScope(int) {}
};
inline Result<void*> cuda_allocate_async(std::size_t, void*) { return no_cuda(); }
inline void cuda_free_async(void*, void*) {}

inline Result<void*> cuda_allocate(int, std::size_t) { return no_cuda(); }
inline void cuda_free(int, void*) {}
inline Status cuda_copy(int, void*, const void*, std::size_t) { return no_cuda(); }
inline Status cuda_fill(int, void*, int, std::size_t) { return no_cuda(); }
inline Status cuda_synchronize(int) { return no_cuda(); }

inline Result<void*> cuda_stream_create(int) { return no_cuda(); }
inline void cuda_stream_destroy(void*) {}
inline Status cuda_stream_synchronize(void*) { return no_cuda(); }
inline Status cuda_enqueue_fill(void*, void*, int, std::size_t) { return no_cuda(); }
inline Status cuda_enqueue_copy(void*, void*, const void*, std::size_t) { return no_cuda(); }
inline Status cuda_enqueue_read(void*, void*, std::size_t) { return no_cuda(); }
inline Result<void*> cuda_capture(void*, const Work&) { return no_cuda(); }
inline Status cuda_replay(void*, void*) { return no_cuda(); }
inline void cuda_forget_capture(void*) {}
inline Result<double> cuda_measure_ms(void*, const Work&) { return no_cuda(); }
#endif

// While it lives a GPU is the calling thread's current device; afterwards the former one is again.
class DeviceScope {
 public:
  explicit DeviceScope(Device device) {
    if (device.type == DeviceType::kCuda) scope_.emplace(device.index);
  }

 private:
  std::optional<CudaDeviceScope> scope_;
};

}  // namespace tilegate
