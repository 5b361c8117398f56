// SPDX-License-Identifier: Apache-2.0
// Memory on a Context's device, for programs that bring no allocator of their own: tests,
// benchmarks, the command line. The library itself never allocates device memory in run(). Copies
// and fills return when done and wait for work on blocking streams; call synchronize() for others.
// Builds without CUDA serve the CPU device only.
#pragma once

#include <cstddef>

#include "tilegate/status.h"
#include "tilegate/tensor.h"

namespace tilegate {

class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  // 256-byte aligned, contents undefined; 0 bytes is legal.
  // Errors: out_of_workspace, cuda, unsupported (a CUDA device in a build without CUDA).
  static Result<DeviceBuffer> allocate(Device device, std::size_t bytes);

  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  ~DeviceBuffer();

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return device_; }

  // Errors: invalid_argument when offset + bytes passes the end; cuda.
  Status copy_from_host(const void* source, std::size_t bytes, std::size_t offset = 0);
  Status copy_to_host(void* destination, std::size_t bytes, std::size_t offset = 0) const;
  Status fill(unsigned char byte);

 private:
  Status check_range(std::size_t bytes, std::size_t offset) const;

  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  Device device_;
};

// Waits until all work on the device is done; at once on the CPU.
Status synchronize(Device device);

}  // namespace tilegate
