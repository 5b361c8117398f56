// SPDX-License-Identifier: Apache-2.0
// Names the SIMD target that dynamic dispatch picks on this machine.
#include "backend/cpu/simd_targets.h"
//
#include <hwy/highway.h>
#include <hwy/targets.h>

#include "backend/cpu/candidates.h"

namespace tilegate {

std::string cpu_isa_name() {
  // Lower bits are better sets; HWY_TARGETS are those that were compiled.
  const std::int64_t usable = hwy::SupportedTargets() & HWY_TARGETS;
  return hwy::TargetName(usable & -usable);
}

}  // namespace tilegate
