// SPDX-License-Identifier: Apache-2.0
// Launches of the CPU delta-rule kernels: from a scheduled call to independent units on the pool.
#pragma once

#include "plan/candidate.h"

namespace tilegate::cpu_linear {

// Tokens of a context-parallel segment, counted from the start of each sequence.
inline constexpr std::int64_t kSegmentTokens = 512;

std::size_t chunk_workspace_bytes(const LinearProblem& problem, int num_threads);
Status launch_chunk(const Launch& launch);

std::size_t segments_workspace_bytes(const LinearProblem& problem, int num_threads);
Status launch_segments(const Launch& launch);

std::size_t recurrent_workspace_bytes(std::int64_t dim_k, std::int64_t dim_v, int num_threads);
Status launch_recurrent(const Launch& launch);
Status launch_commit(const Launch& launch);

}  // namespace tilegate::cpu_linear
