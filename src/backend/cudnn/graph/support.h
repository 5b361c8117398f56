// SPDX-License-Identifier: Apache-2.0
// What cuDNN serves, by its version and the GPU's architecture: a table, so that planning builds no
// graph. Every row stands for a limit of cuDNN, a defect of a version, or an option it lacks.
#pragma once

#include <optional>
#include <string>

#include "plan/candidate.h"

namespace tilegate::cudnn {

// A reason why cuDNN cannot serve the problem, or nullopt.
std::optional<std::string> unsupported_reason(const AttentionProblem& p, const DeviceFacts& facts);

// "9.19.0"
std::string version_text(int version);

}  // namespace tilegate::cudnn
