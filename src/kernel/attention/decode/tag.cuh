// SPDX-License-Identifier: Apache-2.0
// Tags say that a worker's partial result is in memory. A tag is 128 bits that no other content of
// a workspace has but by a chance of 2^-128; who reads it clears it, so a launch leaves none
// behind.
#pragma once

#include "kernel/ptx/arch.cuh"

namespace tilegate::kernel {

__device__ __forceinline__ uint4 published_tag() {
  return make_uint4(0x9d2c5681u, 0x5bf03635u, 0xefc60001u, 0x7a1e93d4u);
}

// By one thread, after a barrier with those that wrote what is published.
__device__ __forceinline__ void publish(uint4* tag) {
  const uint4 x = published_tag();
  asm volatile(
      "fence.acq_rel.gpu;\n"
      "st.relaxed.gpu.global.v4.u32 [%0], {%1, %2, %3, %4};\n" ::"l"(tag),
      "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w)
      : "memory");
}

// Returns when the tag is there; what was published is then visible to this thread, and after a
// barrier to others.
__device__ __forceinline__ void take_tag(uint4* tag) {
  const uint4 want = published_tag();
  uint4 x;
  do {
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "l"(tag)
                 : "memory");
  } while (x.x != want.x || x.y != want.y || x.z != want.z || x.w != want.w);
  asm volatile("fence.acq_rel.gpu;\n" ::: "memory");
  *tag = make_uint4(0, 0, 0, 0);
}

}  // namespace tilegate::kernel
