// SPDX-License-Identifier: Apache-2.0
// Programmatic dependent launch: a kernel launched with the programmatic serialisation attribute
// may start while its predecessor still runs, and waits here for the predecessor's memory. On
// targets without it both calls do nothing, and the host launches without the attribute.
#pragma once

#include "kernel/ptx/arch.cuh"

namespace tilegate::ptx {

// The successor may start once every block of this grid has called this or has exited.
__device__ __forceinline__ void launch_dependents() {
#if TILEGATE_HAS_SM90
  asm volatile("griddepcontrol.launch_dependents;\n" ::: "memory");
#endif
}

// Returns when the predecessor grid has finished and its writes are visible.
__device__ __forceinline__ void wait_for_predecessor() {
#if TILEGATE_HAS_SM90
  asm volatile("griddepcontrol.wait;\n" ::: "memory");
#endif
}

// The same, not before `computed` is known: what a kernel forms without its predecessor is then
// ready, where a compiler would otherwise form it after the wait.
__device__ __forceinline__ void wait_for_predecessor_after(std::uint32_t computed) {
#if TILEGATE_HAS_SM90
  asm volatile(
      "{\n .reg .pred p;\n"
      " setp.eq.u32 p, %0, 0x5bd1e995;\n"
      " @p griddepcontrol.wait;\n"
      " @!p griddepcontrol.wait;\n}\n" ::"r"(computed)
      : "memory");
#endif
}

}  // namespace tilegate::ptx
