// SPDX-License-Identifier: Apache-2.0
// Every backend of this build.
#pragma once

#include <span>
#include <vector>

#include "plan/candidate.h"
#include "tilegate/context.h"

namespace tilegate {

// In order of preference at equal cost.
const std::vector<const Candidate*>& all_candidates();

// What the planner knows of a device. Errors: invalid_argument, cuda.
Result<DeviceFacts> device_facts(Device device, int num_threads);

}  // namespace tilegate
