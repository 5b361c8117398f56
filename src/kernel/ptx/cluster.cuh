// SPDX-License-Identifier: Apache-2.0
// Thread-block clusters (sm_90 and newer): rank, barrier, and stores into another block's shared
// memory. A store is visible to the other block after a barrier of the whole cluster.
#pragma once

#include "kernel/ptx/arch.cuh"

namespace tilegate::ptx {

__device__ __forceinline__ unsigned cluster_rank() {
  unsigned rank = 0;
#if TILEGATE_HAS_SM90
  asm volatile("mov.u32 %0, %%cluster_ctarank;\n" : "=r"(rank));
#endif
  return rank;
}

// Both halves are for all threads of all blocks of the cluster. What a thread wrote before arrive
// is visible to every thread after wait.
__device__ __forceinline__ void cluster_arrive() {
#if TILEGATE_HAS_SM90
  asm volatile("barrier.cluster.arrive.release.aligned;\n" ::: "memory");
#endif
}

__device__ __forceinline__ void cluster_wait() {
#if TILEGATE_HAS_SM90
  asm volatile("barrier.cluster.wait.acquire.aligned;\n" ::: "memory");
#endif
}

// The address in block `rank` of what lies at shared address `address` here.
__device__ __forceinline__ std::uint32_t remote_address(std::uint32_t address, unsigned rank) {
  std::uint32_t remote = address;
#if TILEGATE_HAS_SM90
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;\n" : "=r"(remote) : "r"(address), "r"(rank));
#endif
  return remote;
}

__device__ __forceinline__ void store_remote(std::uint32_t address, float4 x) {
#if TILEGATE_HAS_SM90
  asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};\n" ::"r"(address), "f"(x.x),
               "f"(x.y), "f"(x.z), "f"(x.w)
               : "memory");
#endif
}

__device__ __forceinline__ void store_remote(std::uint32_t address, float2 x) {
#if TILEGATE_HAS_SM90
  asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};\n" ::"r"(address), "f"(x.x), "f"(x.y)
               : "memory");
#endif
}

}  // namespace tilegate::ptx
