// SPDX-License-Identifier: Apache-2.0
// The CPU backend: Highway SIMD (the best instruction set the machine has, chosen at run time) and
// the context's thread pool. Tensors live in host memory; a launch returns when it is done.
#pragma once

#include <span>
#include <string>

#include "plan/candidate.h"

namespace tilegate {

// cpu.flash (the three attention calls), cpu.append, cpu.merge.
std::span<const Candidate> cpu_attention_candidates();

// The delta-rule family and its decode and commit steps.
std::span<const Candidate> cpu_linear_candidates();

// The instruction set in use, for `tilegate info`: "AVX3".
std::string cpu_isa_name();

}  // namespace tilegate
