// SPDX-License-Identifier: Apache-2.0
// Position in a ring of kStages shared-memory stages, with the parity that an mbarrier of the stage
// shows when the ring has passed it: a consumer waits for parity(), a producer for parity() ^ 1.
#pragma once

#include "kernel/ptx/arch.cuh"

namespace tilegate::pipe {

template <int kStages>
class Ring {
 public:
  __device__ __forceinline__ int stage() const { return stage_; }
  __device__ __forceinline__ std::uint32_t parity() const { return parity_; }
  __device__ __forceinline__ void advance() {
    if (++stage_ == kStages) {
      stage_ = 0;
      parity_ ^= 1u;
    }
  }

 private:
  int stage_ = 0;
  std::uint32_t parity_ = 0;
};

}  // namespace tilegate::pipe
