// SPDX-License-Identifier: Apache-2.0
// TMA: the bulk copy engine moves a box of a tensor described by a CUtensorMap into shared memory
// and completes on an mbarrier (sm_90). The map is a __grid_constant__ kernel parameter;
// coordinates are in elements, innermost dimension first; what lies outside the tensor arrives as
// zeros. One thread issues.
#pragma once

#include "kernel/ptx/arch.cuh"

namespace tilegate::ptx {

__device__ __forceinline__ void tma_prefetch_map(const void* map) {
#if TILEGATE_HAS_SM90
  asm volatile("prefetch.tensormap [%0];\n" ::"l"(map) : "memory");
#endif
}

__device__ __forceinline__ void tma_load_2d(std::uint32_t destination, const void* map,
                                            std::uint32_t barrier, int x, int y) {
#if TILEGATE_HAS_SM90
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4}], [%2];\n" ::"r"(destination),
      "l"(map), "r"(barrier), "r"(x), "r"(y)
      : "memory");
#else
  __trap();
#endif
}

__device__ __forceinline__ void tma_load_3d(std::uint32_t destination, const void* map,
                                            std::uint32_t barrier, int x, int y, int z) {
#if TILEGATE_HAS_SM90
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5}], [%2];\n" ::"r"(destination),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z)
      : "memory");
#else
  __trap();
#endif
}

__device__ __forceinline__ void tma_load_4d(std::uint32_t destination, const void* map,
                                            std::uint32_t barrier, int x, int y, int z, int w) {
#if TILEGATE_HAS_SM90
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5, %6}], [%2];\n" ::"r"(destination),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w)
      : "memory");
#else
  __trap();
#endif
}

// A contiguous run of bytes, a multiple of 16, both ends 16-byte aligned. No map.
__device__ __forceinline__ void bulk_load(std::uint32_t destination, const void* source, int bytes,
                                          std::uint32_t barrier) {
#if TILEGATE_HAS_SM90
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
      "[%3];\n" ::"r"(destination),
      "l"(source), "r"(bytes), "r"(barrier)
      : "memory");
#else
  __trap();
#endif
}

}  // namespace tilegate::ptx
