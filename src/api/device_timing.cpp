// SPDX-License-Identifier: Apache-2.0
// Streams, recordings and timing over the CUDA backend, or the wall clock on the CPU.
#include "tilegate/device_timing.h"

#include <chrono>
#include <cstring>
#include <utility>

#include "api/cuda_calls.h"
#include "core/message.h"

namespace tilegate {
namespace {

bool on_gpu(const Stream& stream) { return stream.device().type == DeviceType::kCuda; }

}  // namespace

Result<Stream> Stream::create(Device device) {
  Stream stream;
  stream.device_ = device;
  if (device.type == DeviceType::kCpu) return stream;
  const Result<void*> handle = cuda_stream_create(device.index);
  if (!handle.ok()) return handle.status();
  stream.handle_ = *handle;
  return stream;
}

Stream::Stream(Stream&& other) noexcept { *this = std::move(other); }
Stream& Stream::operator=(Stream&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(device_, other.device_);
  return *this;
}
Stream::~Stream() {
  if (handle_ != nullptr) cuda_stream_destroy(handle_);
}

Status Stream::synchronize() const {
  return handle_ != nullptr ? cuda_stream_synchronize(handle_) : Status();
}

Status enqueue_fill(const Stream& stream, DeviceBuffer& buffer, unsigned char byte) {
  if (buffer.bytes() == 0) return {};
  const DeviceScope scope(stream.device());
  if (on_gpu(stream)) {
    return cuda_enqueue_fill(stream.handle(), buffer.data(), byte, buffer.bytes());
  }
  return buffer.fill(byte);
}

Status enqueue_copy(const Stream& stream, DeviceBuffer& destination, const DeviceBuffer& source,
                    std::size_t bytes, std::size_t offset) {
  if (bytes > source.bytes()) {
    return invalid("bytes must be at most the source's {}, got {}", source.bytes(), bytes);
  }
  if (offset > destination.bytes() || bytes > destination.bytes() - offset) {
    return invalid("bytes at offset {} must end within the destination's {}, got {}", offset,
                   destination.bytes(), bytes);
  }
  if (bytes == 0) return {};
  const DeviceScope scope(stream.device());
  std::byte* to = static_cast<std::byte*>(destination.data()) + offset;
  if (on_gpu(stream)) return cuda_enqueue_copy(stream.handle(), to, source.data(), bytes);
  std::memcpy(to, source.data(), bytes);
  return {};
}

Status enqueue_read(const Stream& stream, DeviceBuffer& buffer) {
  const DeviceScope scope(stream.device());
  if (on_gpu(stream)) return cuda_enqueue_read(stream.handle(), buffer.data(), buffer.bytes());
  constexpr std::size_t kLineBytes = 64;
  const volatile unsigned char* data = static_cast<const unsigned char*>(buffer.data());
  for (std::size_t at = 0; at < buffer.bytes(); at += kLineBytes) (void)data[at];
  return {};
}

Result<Recording> Recording::capture(const Stream& stream, const Work& work) {
  Recording recording;
  if (!on_gpu(stream)) {
    recording.work_ = work;
    return recording;
  }
  const DeviceScope scope(stream.device());
  const Result<void*> graph = cuda_capture(stream.handle(), work);
  if (!graph.ok()) return graph.status();
  recording.graph_ = *graph;
  return recording;
}

Recording::Recording(Recording&& other) noexcept { *this = std::move(other); }
Recording& Recording::operator=(Recording&& other) noexcept {
  std::swap(graph_, other.graph_);
  std::swap(work_, other.work_);
  return *this;
}
Recording::~Recording() {
  if (graph_ != nullptr) cuda_forget_capture(graph_);
}

Status Recording::replay(const Stream& stream) const {
  const DeviceScope scope(stream.device());
  return graph_ != nullptr ? cuda_replay(graph_, stream.handle()) : work_();
}

Result<double> measure_ms(const Stream& stream, const Work& work) {
  const DeviceScope scope(stream.device());
  if (on_gpu(stream)) return cuda_measure_ms(stream.handle(), work);
  const auto start = std::chrono::steady_clock::now();
  TILEGATE_RETURN_IF_ERROR(work());
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - start;
  return elapsed.count();
}

}  // namespace tilegate
