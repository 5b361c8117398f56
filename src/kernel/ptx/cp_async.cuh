// SPDX-License-Identifier: Apache-2.0
// cp.async: copies of 16 or 4 bytes from global to shared memory that a thread starts now and
// awaits later, in groups (sm_80 and newer). A copy of 0 source bytes writes zeros and reads
// nothing.
#pragma once

#include "kernel/ptx/arch.cuh"

namespace tilegate::ptx {

// Copies 16 bytes, or writes 16 zero bytes when `source_bytes` is 0. Both addresses 16-byte
// aligned.
__device__ __forceinline__ void cp_async_16(std::uint32_t destination, const void* source,
                                            int source_bytes) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;\n" ::"r"(destination),
               "l"(source), "r"(source_bytes)
               : "memory");
}

// The same for 4 bytes, 4-byte aligned.
__device__ __forceinline__ void cp_async_4(std::uint32_t destination, const void* source,
                                           int source_bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(destination), "l"(source),
               "r"(source_bytes)
               : "memory");
}

__device__ __forceinline__ void cp_async_commit() {
  asm volatile("cp.async.commit_group;\n" ::: "memory");
}

// Returns when at most kPending of this thread's groups are still in flight.
template <int kPending>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kPending) : "memory");
}

}  // namespace tilegate::ptx
