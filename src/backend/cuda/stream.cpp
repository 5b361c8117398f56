// SPDX-License-Identifier: Apache-2.0
// Streams, captured graphs and event timing with checked results.
#include "backend/cuda/stream.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "backend/cuda/check.h"
#include "backend/cuda/device.h"
#include "backend/cuda/transfer/words.h"

namespace tilegate {
namespace {

struct EventDestroy {
  void operator()(cudaEvent_t event) const { (void)cudaEventDestroy(event); }
};
using Event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, EventDestroy>;

Result<Event> make_event() {
  cudaEvent_t event = nullptr;
  TILEGATE_RETURN_IF_ERROR(cuda_status(cudaEventCreate(&event), "creating an event"));
  return Event(event);
}

bool is_aligned(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % kWordBytes == 0;
}

cudaStream_t as_stream(void* stream) { return static_cast<cudaStream_t>(stream); }

// With the flag PyTorch instantiates with, so that its recordings and ours replay alike.
Result<void*> instantiate(cudaGraph_t graph) {
  cudaGraphExec_t exec = nullptr;
  const cudaError_t error =
      cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch);
  (void)cudaGraphDestroy(graph);
  TILEGATE_RETURN_IF_ERROR(cuda_status(error, "instantiating a graph"));
  return static_cast<void*>(exec);
}

}  // namespace

Result<void*> cuda_stream_create(int device) {
  const CudaDeviceScope scope(device);
  TILEGATE_RETURN_IF_ERROR(cuda_status(cudaSetDevice(device), "selecting the CUDA device"));
  cudaStream_t stream = nullptr;
  TILEGATE_RETURN_IF_ERROR(
      cuda_status(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream"));
  return static_cast<void*>(stream);
}

void cuda_stream_destroy(void* stream) { (void)cudaStreamDestroy(as_stream(stream)); }

Status cuda_stream_synchronize(void* stream) {
  return cuda_status(cudaStreamSynchronize(as_stream(stream)), "waiting for a stream");
}

Status cuda_enqueue_fill(void* stream, void* destination, int byte, std::size_t bytes) {
  return cuda_status(cudaMemsetAsync(destination, byte, bytes, as_stream(stream)),
                     "filling memory");
}

Status cuda_enqueue_copy(void* stream, void* destination, const void* source, std::size_t bytes) {
  const bool aligned = is_aligned(destination) && is_aligned(source);
  const std::size_t words = aligned ? bytes / kWordBytes : 0;
  const std::size_t rest = bytes - words * kWordBytes;
  if (words > 0) {
    TILEGATE_RETURN_IF_ERROR(cuda_status(
        launch_copy_words(destination, source, static_cast<std::int64_t>(words), as_stream(stream)),
        "copying memory"));
  }
  if (rest == 0) return {};
  return cuda_status(cudaMemcpyAsync(static_cast<std::byte*>(destination) + words * kWordBytes,
                                     static_cast<const std::byte*>(source) + words * kWordBytes,
                                     rest, cudaMemcpyDefault, as_stream(stream)),
                     "copying memory");
}

Status cuda_enqueue_read(void* stream, void* data, std::size_t bytes) {
  const std::size_t words = bytes / kWordBytes;
  if (words == 0) return {};
  return cuda_status(launch_read_words(data, static_cast<std::int64_t>(words), as_stream(stream)),
                     "reading memory");
}

Result<void*> cuda_capture(void* stream, const Work& work) {
  TILEGATE_RETURN_IF_ERROR(
      cuda_status(cudaStreamBeginCapture(as_stream(stream), cudaStreamCaptureModeThreadLocal),
                  "beginning a capture"));
  const Status done = work();
  cudaGraph_t graph = nullptr;
  const cudaError_t error = cudaStreamEndCapture(as_stream(stream), &graph);
  if (!done.ok()) {
    if (graph != nullptr) (void)cudaGraphDestroy(graph);
    (void)cudaGetLastError();
    return done;
  }
  TILEGATE_RETURN_IF_ERROR(cuda_status(error, "ending a capture"));
  return instantiate(graph);
}

Status cuda_replay(void* graph, void* stream) {
  return cuda_status(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), as_stream(stream)),
                     "launching a graph");
}

void cuda_forget_capture(void* graph) {
  (void)cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph));
}

Result<double> cuda_measure_ms(void* stream, const Work& work) {
  Result<Event> start = make_event();
  if (!start.ok()) return start.status();
  Result<Event> stop = make_event();
  if (!stop.ok()) return stop.status();
  TILEGATE_RETURN_IF_ERROR(
      cuda_status(cudaEventRecord(start->get(), as_stream(stream)), "recording an event"));
  TILEGATE_RETURN_IF_ERROR(work());
  TILEGATE_RETURN_IF_ERROR(
      cuda_status(cudaEventRecord(stop->get(), as_stream(stream)), "recording an event"));
  TILEGATE_RETURN_IF_ERROR(cuda_status(cudaEventSynchronize(stop->get()), "waiting for an event"));
  float elapsed = 0.0f;
  TILEGATE_RETURN_IF_ERROR(cuda_status(cudaEventElapsedTime(&elapsed, start->get(), stop->get()),
                                       "reading elapsed time"));
  return static_cast<double>(elapsed);
}

}  // namespace tilegate
