// SPDX-License-Identifier: Apache-2.0
// The kernels of the cuDNN backend, as the registry sees them.
#pragma once

#include <span>

#include "plan/candidate.h"

namespace tilegate {

std::span<const Candidate> cudnn_candidates();

}  // namespace tilegate
