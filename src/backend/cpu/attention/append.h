// SPDX-License-Identifier: Apache-2.0
// cpu.append: scatters new key and value rows into pages.
#pragma once

#include <optional>
#include <string>

#include "plan/candidate.h"

namespace tilegate::cpu {

std::optional<std::string> append_reject(const Operation& op, const DeviceFacts& facts);
double append_cost_us(const Operation& op, const DeviceFacts& facts);
Schedule append_schedule(const Operation& op, const DeviceFacts& facts);
Status append_launch(const Launch& launch);

}  // namespace tilegate::cpu
