// SPDX-License-Identifier: Apache-2.0
// cuda.append and cuda.merge: the candidates' functions.
#pragma once

#include "plan/candidate.h"

namespace tilegate {

std::optional<std::string> append_reject(const Operation& op, const DeviceFacts& facts);
double append_cost_us(const Operation& op, const DeviceFacts& facts);
Status append_launch(const Launch& launch);

std::optional<std::string> merge_reject(const Operation& op, const DeviceFacts& facts);
double merge_cost_us(const Operation& op, const DeviceFacts& facts);
Status merge_launch(const Launch& launch);

// Neither needs workspace, and a row's bits depend on that row alone.
Schedule row_schedule(const Operation& op, const DeviceFacts& facts);

}  // namespace tilegate
