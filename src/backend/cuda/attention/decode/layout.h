// SPDX-License-Identifier: Apache-2.0
// How a paged decode call is divided: which built kernel, how its keys are cut, its grid and its
// workspace. From shapes and device facts alone, so planner and launch find the same.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cuda/attention/decode/config.h"
#include "plan/candidate.h"

namespace tilegate {

inline constexpr std::int64_t kMaxDecodeKeys = std::int64_t{1} << 30;  // numbered in 32 bits

inline std::int64_t decode_rows(const AttentionProblem& p) {
  return p.uniform_qo_len * p.group_size();  // of a (request, KV head) unit
}

// Index in kDecodeConfigs: the fewest rows that hold all of a unit, else the most. -1: none.
int find_decode_config(const AttentionProblem& p);

int shared_bytes_per_sm(int compute_capability);

// Workers of a configuration that fit on an SM; each also costs the system's 1 KB.
int decode_workers_per_sm(const DecodeConfig& config, const DeviceFacts& facts);

// KV tiles of all units together, at most.
double decode_tiles(const AttentionProblem& p, const DecodeConfig& config);

struct DecodeLayout {
  std::int64_t split = 0;        // keys; 0: the even cut
  std::int64_t unit_blocks = 0;  // 0: no unit gets a cluster of its own
  std::int64_t blocks = 1;
  std::int64_t workers = 1;
  std::int64_t row_blocks = 1;
  std::int64_t block_rows = 1;
  std::int64_t units = 1;    // (request, KV head, row block)
  std::int64_t slots = 0;    // partial results; 0: nothing is split
  bool merges_self = false;  // by tags: no combine kernel
  double us = 0.0;           // estimated time
  std::size_t lse_offset = 0;
  std::size_t tags_offset = 0;
  std::size_t units_offset = 0;
  std::size_t bytes = 0;
};

DecodeLayout decode_layout(const AttentionProblem& p, const DeviceFacts& facts);

}  // namespace tilegate
