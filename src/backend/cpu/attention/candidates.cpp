// SPDX-License-Identifier: Apache-2.0
// The attention kernels of the CPU backend, as the planner sees them.
#include "backend/cpu/candidates.h"

#include "backend/cpu/attention/launch.h"

namespace tilegate {

std::span<const Candidate> cpu_attention_candidates() {
  static constexpr Candidate kCandidates[] = {
      {.name = "cpu.flash",
       .backend = Backend::kCpu,
       .reject = cpu::flash_reject,
       .cost_us = cpu::flash_cost_us,
       .schedule = cpu::flash_schedule,
       .launch = cpu::flash_launch},
      {.name = "cpu.append",
       .backend = Backend::kCpu,
       .reject = cpu::append_reject,
       .cost_us = cpu::append_cost_us,
       .schedule = cpu::append_schedule,
       .launch = cpu::append_launch},
      {.name = "cpu.merge",
       .backend = Backend::kCpu,
       .reject = cpu::merge_reject,
       .cost_us = cpu::merge_cost_us,
       .schedule = cpu::merge_schedule,
       .launch = cpu::merge_launch},
  };
  return kCandidates;
}

}  // namespace tilegate
