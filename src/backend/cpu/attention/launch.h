// SPDX-License-Identifier: Apache-2.0
// Host side of the three attention kernels: what the planner asks of each, and their launches.
#pragma once

#include <optional>
#include <string>

#include "plan/candidate.h"

namespace tilegate::cpu {

// cpu.flash: the three attention calls.
std::optional<std::string> flash_reject(const Operation& op, const DeviceFacts& facts);
double flash_cost_us(const Operation& op, const DeviceFacts& facts);
Schedule flash_schedule(const Operation& op, const DeviceFacts& facts);
Status flash_launch(const Launch& launch);

// cpu.append: scatters new key and value rows into pages.
std::optional<std::string> append_reject(const Operation& op, const DeviceFacts& facts);
double append_cost_us(const Operation& op, const DeviceFacts& facts);
Schedule append_schedule(const Operation& op, const DeviceFacts& facts);
Status append_launch(const Launch& launch);

// cpu.merge: one attention state from partial ones.
std::optional<std::string> merge_reject(const Operation& op, const DeviceFacts& facts);
double merge_cost_us(const Operation& op, const DeviceFacts& facts);
Schedule merge_schedule(const Operation& op, const DeviceFacts& facts);
Status merge_launch(const Launch& launch);

}  // namespace tilegate::cpu
