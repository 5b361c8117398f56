// SPDX-License-Identifier: Apache-2.0
// Loads and stores of global memory as instructions. Of 16 bytes, because a compiler that takes a
// vector apart may not put it together again: four stores for one. Of 4 bytes, for a load that
// others wait for: it stays before those that follow.
#pragma once

#include "kernel/ptx/arch.cuh"

namespace tilegate::ptx {

__device__ __forceinline__ std::uint32_t load_32(const void* from) {
  std::uint32_t x;
  asm volatile("ld.global.b32 %0, [%1];\n" : "=r"(x) : "l"(from) : "memory");
  return x;
}

__device__ __forceinline__ uint4 load_128(const void* from) {
  uint4 x;
  asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "l"(from)
               : "memory");
  return x;
}

__device__ __forceinline__ void store_128(void* to, const uint4& x) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};\n" ::"l"(to), "r"(x.x), "r"(x.y), "r"(x.z),
               "r"(x.w)
               : "memory");
}

}  // namespace tilegate::ptx
