// SPDX-License-Identifier: Apache-2.0
// DeviceBuffer over host memory or the CUDA backend's allocator.
#include "tilegate/device_memory.h"

#include <cstring>
#include <new>
#include <utility>

#include "api/cuda_calls.h"
#include "core/message.h"

namespace tilegate {
namespace {

constexpr std::align_val_t kAlignment{256};

}  // namespace

Result<DeviceBuffer> DeviceBuffer::allocate(Device device, std::size_t bytes) {
  DeviceBuffer buffer;
  buffer.device_ = device;
  buffer.bytes_ = bytes;
  if (device.type == DeviceType::kCuda) {
    const Result<void*> data = cuda_allocate(device.index, bytes);
    if (!data.ok()) return data.status();
    buffer.data_ = *data;
    return buffer;
  }
  buffer.data_ = ::operator new(bytes > 0 ? bytes : 1, kAlignment, std::nothrow);
  if (buffer.data_ == nullptr) {
    return Status(StatusCode::kOutOfWorkspace,
                  fmt::format("host memory could not be had: {} bytes", bytes));
  }
  return buffer;
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      device_(other.device_) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(device_, other.device_);
  return *this;
}

DeviceBuffer::~DeviceBuffer() {
  if (data_ == nullptr) return;
  if (device_.type == DeviceType::kCuda) {
    cuda_free(device_.index, data_);
    return;
  }
  ::operator delete(data_, kAlignment);
}

Status DeviceBuffer::check_range(std::size_t bytes, std::size_t offset) const {
  if (offset <= bytes_ && bytes <= bytes_ - offset) return {};
  return invalid("bytes at offset {} must end within the buffer's {}, got {}", offset, bytes_,
                 bytes);
}

Status DeviceBuffer::copy_from_host(const void* source, std::size_t bytes, std::size_t offset) {
  TILEGATE_RETURN_IF_ERROR(check_range(bytes, offset));
  if (bytes == 0) return {};
  std::byte* destination = static_cast<std::byte*>(data_) + offset;
  if (device_.type == DeviceType::kCuda) {
    return cuda_copy(device_.index, destination, source, bytes);
  }
  std::memcpy(destination, source, bytes);
  return {};
}

Status DeviceBuffer::copy_to_host(void* destination, std::size_t bytes, std::size_t offset) const {
  TILEGATE_RETURN_IF_ERROR(check_range(bytes, offset));
  if (bytes == 0) return {};
  const std::byte* source = static_cast<const std::byte*>(data_) + offset;
  if (device_.type == DeviceType::kCuda) {
    return cuda_copy(device_.index, destination, source, bytes);
  }
  std::memcpy(destination, source, bytes);
  return {};
}

Status DeviceBuffer::fill(unsigned char byte) {
  if (bytes_ == 0) return {};
  if (device_.type == DeviceType::kCuda) return cuda_fill(device_.index, data_, byte, bytes_);
  std::memset(data_, byte, bytes_);
  return {};
}

Status synchronize(Device device) {
  return device.type == DeviceType::kCuda ? cuda_synchronize(device.index) : Status();
}

}  // namespace tilegate
