// SPDX-License-Identifier: Apache-2.0
// One independent piece of work: some V columns (or V rows) of the states of one sequence and some
// of its heads, over a range of its tokens. Heads walk side by side, chunk by chunk: neighbours
// share cache lines of the tensors, and often the key and query heads. The columns of the
// recurrence never mix, so how they are grouped never changes a bit. The functions run the best
// instruction set of this machine.
#pragma once

#include <cstdint>

#include "backend/cpu/linear/buffers.h"
#include "problem/linear.h"

namespace tilegate::cpu_linear {

enum class Seed : std::uint8_t {
  kInitial,  // the sequence's initial state, or zero
  kBuffer,   // `boundary`, in the panel layout of ChunkBuffers::state
  kZero,
  kIdentity,  // columns are the K unit vectors: the walk yields the transition matrix
};

enum class Emit : std::uint8_t {
  kAll,       // outputs, checkpoints and, at the end of the sequence, the final state
  kBoundary,  // kAll, and the last state into `boundary`
  kState,     // only the last state into `boundary`; V is not read when the seed is kIdentity
};

struct ChunkUnit {
  const LinearProblem* problem = nullptr;
  std::int64_t seq = 0;
  std::int64_t head_begin = 0;
  std::int64_t head_end = 0;  // one head where a boundary is given
  std::int64_t begin = 0;     // tokens of the sequence, [begin, end)
  std::int64_t end = 0;
  std::int64_t column_begin = 0;  // multiples of kMaxPanel, or the last column
  std::int64_t column_end = 0;
  Seed seed = Seed::kInitial;
  Emit emit = Emit::kAll;
  const float* seed_boundary = nullptr;  // [K] x all columns, panels
  float* boundary = nullptr;             // the same
};

// Chunked form. `buffers` is this worker's scratch.
void run_chunk_unit(const ChunkUnit& unit, const ChunkBuffers& buffers);

// out = transition * in + from_zero for columns [column_begin, column_end) of V; all in the panel
// layout, transition [K] x K, the others [K] x V. `out` may be `from_zero`.
struct ScanStep {
  std::int64_t dim_k = 0;
  std::int64_t column_begin = 0;
  std::int64_t column_end = 0;
  const float* transition = nullptr;
  const float* in = nullptr;
  const float* from_zero = nullptr;
  float* out = nullptr;
};
void run_scan_step(const ScanStep& step);

struct RecurrentUnit {
  const LinearProblem* problem = nullptr;
  std::int64_t seq = 0;
  std::int64_t head = 0;
  std::int64_t row_begin = 0;  // rows of V
  std::int64_t row_end = 0;
};

// Recurrent form. `scratch` is laid out as RecurrentBuffers.
void run_recurrent_unit(const RecurrentUnit& unit, float* scratch);

struct CommitUnit {
  const CommitProblem* problem = nullptr;
  std::int64_t seq = 0;
  std::int64_t head = 0;
  std::int64_t row_begin = 0;
  std::int64_t row_end = 0;
};
void run_commit_unit(const CommitUnit& unit, float* scratch);

}  // namespace tilegate::cpu_linear
