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
  std::int64_t kv_split = 0;   // keys a split; 0: one split
  std::int64_t tile_rows = 0;  // rows of a tile, whole vectors
  int key_tile = kKeyTile;
  int item_heads = 1;             // KV heads of an item, at most
  std::int64_t state_floats = 0;  // one state
  std::int64_t max_parts = 0;     // states that fit; 0: splits are walked in order
  std::size_t index_bytes = 0;    // offsets of the requests
  std::size_t scratch_bytes = 0;  // one worker
  std::size_t total_bytes = 0;
};

FlashPlan plan_flash(const AttentionProblem& problem, int num_threads);

// The state that lies at `base`.
FlashState lay_out_state(const AttentionProblem& problem, const FlashPlan& plan, float* base);

// Lays out one worker's scratch from `base` (64-byte aligned). Returns the bytes used, a multiple
// of 64; with a null base it only measures.
std::size_t lay_out_scratch(const AttentionProblem& problem, const FlashPlan& plan, std::byte* base,
                            FlashScratch* scratch);

}  // namespace tilegate::cpu
