// SPDX-License-Identifier: Apache-2.0
// The kernels of the reference backend: the definition of every operation as the shortest correct
// loops, in fp64. Always built, never fast.
#pragma once

#include <span>

#include "plan/candidate.h"

namespace tilegate {

std::span<const Candidate> reference_attention_candidates();
std::span<const Candidate> reference_linear_candidates();

}  // namespace tilegate
