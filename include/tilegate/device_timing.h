// SPDX-License-Identifier: Apache-2.0
// Streams, recordings and timing on a Context's device, for programs without a framework of their
// own: benchmarks, tests, servers. On the CPU work runs at once and a recording calls it again.
#pragma once

#include <cstddef>
#include <functional>

#include "tilegate/device_memory.h"
#include "tilegate/status.h"
#include "tilegate/tensor.h"

namespace tilegate {

// A non-blocking stream of a device; what is done with it leaves the current device as it is.
class Stream {
 public:
  // Errors: cuda, unsupported (a CUDA device in a build without CUDA).
  static Result<Stream> create(Device device);
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;
  ~Stream();

  void* handle() const { return handle_; }  // a cudaStream_t; null on the CPU
  Device device() const { return device_; }
  // Waits until all work of the stream is done.
  Status synchronize() const;

 private:
  Stream() = default;
  void* handle_ = nullptr;
  Device device_;
};

// Put on the stream and return at once, within a recording too; the CPU does them before it
// returns. Errors: invalid_argument when the bytes pass the end of a buffer; cuda.
Status enqueue_fill(const Stream& stream, DeviceBuffer& buffer, unsigned char byte);
// The first `bytes` of `source` go to `destination` from byte `offset` on; they must not overlap.
Status enqueue_copy(const Stream& stream, DeviceBuffer& destination, const DeviceBuffer& source,
                    std::size_t bytes, std::size_t offset = 0);
// Reads the buffer and leaves it as it is, so that caches hold it rather than anything else.
Status enqueue_read(const Stream& stream, DeviceBuffer& buffer);

using Work = std::function<Status()>;

// Work captured from a stream once (a CUDA graph) and replayed as one launch.
class Recording {
 public:
  // Calls `work`, which puts its launches on `stream`; nothing runs yet on a GPU. On the CPU `work`
  // is kept and called by every replay. Errors: those of `work`, cuda.
  static Result<Recording> capture(const Stream& stream, const Work& work);
  Recording(Recording&& other) noexcept;
  Recording& operator=(Recording&& other) noexcept;
  ~Recording();

  // Errors: cuda; on the CPU those of the work.
  Status replay(const Stream& stream) const;

 private:
  Recording() = default;
  void* graph_ = nullptr;  // a cudaGraphExec_t
  Work work_;
};

// Milliseconds between an event before and an event after `work` on the stream (the CPU: wall
// clock). Returns when the work is done. Errors: those of `work`, cuda.
Result<double> measure_ms(const Stream& stream, const Work& work);

}  // namespace tilegate
