// SPDX-License-Identifier: Apache-2.0
// Which instruction sets the current device pass has. A wrapper whose instruction is missing traps:
// host code never launches such a kernel, the guard only lets one source compile for every target.
//
// TILEGATE_HAS_SM90:  TMA, mbarrier transactions, griddepcontrol (sm_90 and newer).
// TILEGATE_HAS_WGMMA: warpgroup matrix instructions (sm_90a only).
#pragma once

#include <cstdint>

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define TILEGATE_HAS_SM90 1
#else
#define TILEGATE_HAS_SM90 0
#endif

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define TILEGATE_HAS_WGMMA 1
#else
#define TILEGATE_HAS_WGMMA 0
#endif

namespace tilegate::ptx {

// The 32-bit address that shared-memory instructions take.
__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

}  // namespace tilegate::ptx
