// SPDX-License-Identifier: Apache-2.0
// cuda.decode: the candidate's four functions.
#pragma once

#include "plan/candidate.h"

namespace tilegate {

std::optional<std::string> decode_reject(const Operation& op, const DeviceFacts& facts);
double decode_cost_us(const Operation& op, const DeviceFacts& facts);
Schedule decode_schedule(const Operation& op, const DeviceFacts& facts);
Status decode_launch(const Launch& launch);

}  // namespace tilegate
