// SPDX-License-Identifier: Apache-2.0
// The kernels of the CUDA backend, as the registry sees them.
#pragma once

#include <span>

#include "plan/candidate.h"

namespace tilegate {

std::span<const Candidate> cuda_candidates();
std::span<const Candidate> cuda_linear_candidates();

}  // namespace tilegate
