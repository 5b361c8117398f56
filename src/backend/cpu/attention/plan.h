// SPDX-License-Identifier: Apache-2.0
// Sizes and workspace layout of a cpu.flash launch: the same function measures in plan and lays out
// at launch.
//
// Workspace: offsets of the requests, then one scratch a worker, then the states of splits that are
// walked in parallel. Whether splits are walked in parallel or one after another changes no bit, so
// it may depend on the number of threads and on what fits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/attention/job.h"
#include "plan/candidate.h"

namespace tilegate::cpu {

struct FlashPlan {
  std::int64_t kv_split = 0;      // keys a split; 0: one split
  std::int64_t tile_rows = 0;     // rows a tile can have, padded
  std::int64_t part_floats = 0;   // one stored state
  std::int64_t max_parts = 0;     // states that fit; 0: splits are walked in order
  std::size_t index_bytes = 0;    // FlashIndex arrays
  std::size_t scratch_bytes = 0;  // one worker
  std::size_t total_bytes = 0;
};

FlashPlan plan_flash(const AttentionProblem& problem, int num_threads);

}  // namespace tilegate::cpu
