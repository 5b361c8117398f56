// SPDX-License-Identifier: Apache-2.0
// mbarrier: a 64-bit barrier in shared memory that counts arriving threads and, for the bulk copy
// engine, arriving bytes (sm_90). It has a phase bit; a waiter passes the parity it waits for.
#pragma once

#include "kernel/ptx/arch.cuh"

namespace tilegate::ptx {

// One thread, before any use; follow with mbarrier_fence_init and a block barrier.
__device__ __forceinline__ void mbarrier_init(std::uint32_t barrier, int arrivals) {
#if TILEGATE_HAS_SM90
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(barrier), "r"(arrivals)
               : "memory");
#else
  __trap();
#endif
}

// Makes initialised barriers visible to the bulk copy engine.
__device__ __forceinline__ void mbarrier_fence_init() {
#if TILEGATE_HAS_SM90
  asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
#endif
}

__device__ __forceinline__ void mbarrier_arrive(std::uint32_t barrier) {
#if TILEGATE_HAS_SM90
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(barrier) : "memory");
#else
  __trap();
#endif
}

// Arrives and announces `bytes` that copies will deliver in this phase.
__device__ __forceinline__ void mbarrier_arrive_expect(std::uint32_t barrier, int bytes) {
#if TILEGATE_HAS_SM90
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(barrier), "r"(bytes)
               : "memory");
#else
  __trap();
#endif
}

// True once the phase of this parity has completed.
__device__ __forceinline__ bool mbarrier_try_wait(std::uint32_t barrier, std::uint32_t parity) {
#if TILEGATE_HAS_SM90
  std::uint32_t done;
  asm volatile(
      "{\n .reg .pred p;\n"
      " mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      " selp.u32 %0, 1, 0, p;\n}\n"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
#else
  __trap();
  return true;
#endif
}

__device__ __forceinline__ void mbarrier_wait(std::uint32_t barrier, std::uint32_t parity) {
  while (!mbarrier_try_wait(barrier, parity)) {
  }
}

// Orders this thread's ordinary shared-memory accesses before later accesses by the copy engine or
// by wgmma. Needed in every writing thread, before the barrier that hands the memory over.
__device__ __forceinline__ void fence_async_shared() {
#if TILEGATE_HAS_SM90
  asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
#endif
}

}  // namespace tilegate::ptx
