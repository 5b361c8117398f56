// SPDX-License-Identifier: Apache-2.0
// Streams of 16-byte words through device memory, for copies at its full rate (a memcpy node of a
// graph reaches two thirds of it on an H200) and for filling the L2 with lines that need no write.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tilegate {

inline constexpr std::size_t kWordBytes = 16;

// Pointers are 16-byte aligned; `words` at least 1. The ranges must not overlap.
cudaError_t launch_copy_words(void* to, const void* from, std::int64_t words, cudaStream_t stream);

// Reads all words and leaves them as they are.
cudaError_t launch_read_words(void* data, std::int64_t words, cudaStream_t stream);

}  // namespace tilegate
