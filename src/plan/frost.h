// SPDX-License-Identifier: Apache-2.0
// The rule by which cuDNN's FROST decode engine is preferred where it can be reached: through the
// Python frontend on sm_100 and sm_103. The C++ frontend has no such engine, so here the rule only
// explains why the choice stays with the other kernels.
#pragma once

#include <optional>
#include <string>

#include "plan/candidate.h"

namespace tilegate {

// Why the rule does not take the shape, or nullopt when it would.
std::optional<std::string> outside_frost_rule(const AttentionProblem& p);

// One line for explain(); empty unless the operation is a decode on a GPU.
std::string frost_note(const Operation& op, const DeviceFacts& facts);

}  // namespace tilegate
