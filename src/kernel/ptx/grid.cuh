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

}  // namespace tilegate::ptx
