// SPDX-License-Identifier: Apache-2.0
// CUDA streams, graphs and events as src/api uses them. Handles are cudaStream_t, cudaGraphExec_t.
#pragma once

#include "tilegate/device_timing.h"

namespace tilegate {

Result<void*> cuda_stream_create(int device);
void cuda_stream_destroy(void* stream);
Status cuda_stream_synchronize(void* stream);

// In stream order; the calls return at once.
Status cuda_enqueue_fill(void* stream, void* destination, int byte, std::size_t bytes);
Status cuda_enqueue_copy(void* stream, void* destination, const void* source, std::size_t bytes);
// All whole 16-byte words of device memory that is 16-byte aligned.
Status cuda_enqueue_read(void* stream, void* data, std::size_t bytes);

// Captures what `work` launches on `stream` and instantiates it.
Result<void*> cuda_capture(void* stream, const Work& work);
Status cuda_replay(void* graph, void* stream);
void cuda_forget_capture(void* graph);

// Milliseconds between events around `work`; waits for the second.
Result<double> cuda_measure_ms(void* stream, const Work& work);

}  // namespace tilegate
