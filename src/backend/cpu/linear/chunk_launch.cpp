// SPDX-License-Identifier: Apache-2.0
// One unit for every sequence, head and share of the V columns. With fewer (sequence, head) pairs
// than threads the columns are shared out; each share repeats the chunk matrices (about an eighth
// of the work) and, columns being independent, computes the same bits.
#include <algorithm>

#include "backend/cpu/linear/launch.h"
#include "backend/cpu/linear/unit.h"
#include "problem/sequences.h"

namespace tilegate::cpu_linear {
namespace {

ChunkDims dims_of(const LinearProblem& p) { return {.dim_k = p.dim_k, .columns = p.dim_v}; }

// Columns of a unit: enough shares to keep the threads busy behind the longest sequence.
std::int64_t columns_per_unit(const LinearProblem& p, int num_threads) {
  std::int64_t longest = 1;
  std::int64_t total = 1;
  for (std::int64_t i = 0; i < p.num_seqs; ++i) {
    longest = std::max(longest, seq_len(p, i));
    total += seq_len(p, i);
  }
  const std::int64_t busy = std::max<std::int64_t>(1, total / longest) * p.heads_o;
  const std::int64_t most = round_up(p.dim_v, kMaxPanel) / kMaxPanel;
  const std::int64_t wanted = (num_threads + busy - 1) / busy;
  const std::int64_t shares = std::clamp<std::int64_t>(wanted, 1, most);
  return round_up((p.dim_v + shares - 1) / shares, kMaxPanel);
}

}  // namespace

std::size_t chunk_workspace_bytes(const LinearProblem& problem, int num_threads) {
  return lay_out(dims_of(problem), nullptr, nullptr) * static_cast<std::size_t>(num_threads);
}

Status launch_chunk(const Launch& launch) {
  const LinearProblem& p = std::get<LinearProblem>(launch.call);
  if (launch.schedule.segment_tokens > 0) return launch_segments(launch);
  const std::int64_t columns = columns_per_unit(p, launch.facts.num_threads);
  const std::int64_t shares = (p.dim_v + columns - 1) / columns;
  const std::size_t slice = lay_out(dims_of(p), nullptr, nullptr);
  launch.resources.pool.parallel_for(
      p.num_seqs * p.heads_o * shares, [&](std::int64_t item, int worker) {
        ChunkBuffers buffers;
        lay_out(dims_of(p), launch.workspace + static_cast<std::size_t>(worker) * slice, &buffers);
        const std::int64_t share = item % shares;
        const std::int64_t head = item / shares % p.heads_o;
        const std::int64_t seq = item / shares / p.heads_o;
        run_chunk_unit({.problem = &p,
                        .seq = seq,
                        .head = head,
                        .begin = 0,
                        .end = seq_len(p, seq),
                        .column_begin = share * columns,
                        .column_end = std::min(p.dim_v, (share + 1) * columns)},
                       buffers);
      });
  return Status();
}

}  // namespace tilegate::cpu_linear
