// SPDX-License-Identifier: Apache-2.0
// cpu.flash, host side: what the planner asks of it and its launch.
#pragma once

#include <optional>
#include <string>

#include "plan/candidate.h"

namespace tilegate::cpu {

std::optional<std::string> flash_reject(const Operation& op, const DeviceFacts& facts);
double flash_cost_us(const Operation& op, const DeviceFacts& facts);
Schedule flash_schedule(const Operation& op, const DeviceFacts& facts);
Status flash_launch(const Launch& launch);

}  // namespace tilegate::cpu
