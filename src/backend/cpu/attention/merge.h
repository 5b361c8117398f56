// SPDX-License-Identifier: Apache-2.0
// cpu.merge: one attention state from partial ones.
#pragma once

#include <optional>
#include <string>

#include "plan/candidate.h"

namespace tilegate::cpu {

std::optional<std::string> merge_reject(const Operation& op, const DeviceFacts& facts);
double merge_cost_us(const Operation& op, const DeviceFacts& facts);
Schedule merge_schedule(const Operation& op, const DeviceFacts& facts);
Status merge_launch(const Launch& launch);

}  // namespace tilegate::cpu
