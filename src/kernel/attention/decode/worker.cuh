// SPDX-License-Identifier: Apache-2.0
// A decode worker is 128 threads that walk one range of the line: a block of the split kernel, or
// one half of a block of the unit kernel (unit.cuh). Its threads meet at a barrier of their
// own.
#pragma once

#include "kernel/attention/decode/params.h"
#include "kernel/ptx/arch.cuh"

namespace tilegate::kernel {

inline constexpr int kWorkerThreads = 32 * kDecodeWarps;

__device__ __forceinline__ int worker_thread() {
  return static_cast<int>(threadIdx.x % kWorkerThreads);
}

__device__ __forceinline__ void worker_sync() {
  // Numbers that the compiler knows: with one in a register a block would reserve all barriers.
  if (threadIdx.x < kWorkerThreads) {
    asm volatile("bar.sync 0, %0;\n" ::"n"(kWorkerThreads) : "memory");
  } else {
    asm volatile("bar.sync 1, %0;\n" ::"n"(kWorkerThreads) : "memory");
  }
}

}  // namespace tilegate::kernel
