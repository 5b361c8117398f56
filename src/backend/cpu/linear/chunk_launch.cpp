// SPDX-License-Identifier: Apache-2.0
// One unit for every sequence, group of heads and share of the V columns. With fewer (sequence,
// head) pairs than threads the columns are shared out; each share repeats the chunk matrices (about
// an eighth of the work) and, columns being independent, computes the same bits.
#include <algorithm>

#include "backend/cpu/linear/launch.h"
#include "backend/cpu/linear/unit.h"
#include "problem/sequences.h"

namespace tilegate::cpu_linear {
namespace {

constexpr std::int64_t kUnitsPerThread = 2;
constexpr std::int64_t kMaxHeads = 4;  // side by side: their fp32 states stay in a 512 KB cache

ChunkDims dims_of(const LinearProblem& p) {
  return {.dim_k = p.dim_k, .columns = p.dim_v, .heads = std::min(kMaxHeads, p.heads_o)};
}

// How the work of a sequence is cut.
struct Cut {
  std::int64_t columns = 0;  // of V, a unit
  std::int64_t shares = 1;   // of the columns
  std::int64_t heads = 1;    // a unit
  std::int64_t groups = 1;   // of heads
};

// Enough units to keep the threads busy behind the longest sequence: first heads side by side, then
// one head a unit, then shares of the columns.
Cut cut_sequence(const LinearProblem& p, int num_threads) {
  std::int64_t longest = 1;
  std::int64_t total = 1;
  for (std::int64_t i = 0; i < p.num_seqs; ++i) {
    longest = std::max(longest, seq_len(p, i));
    total += seq_len(p, i);
  }
  const std::int64_t pairs = std::max<std::int64_t>(1, total / longest) * p.heads_o;
  const std::int64_t most = round_up(p.dim_v, kMaxPanel) / kMaxPanel;
  Cut cut;
  const std::int64_t wanted = (num_threads + pairs - 1) / std::max<std::int64_t>(1, pairs);
  const std::int64_t shares = std::clamp<std::int64_t>(wanted, 1, most);
  cut.columns = round_up((p.dim_v + shares - 1) / shares, kMaxPanel);
  cut.shares = (p.dim_v + cut.columns - 1) / cut.columns;
  cut.heads = std::clamp<std::int64_t>(pairs / (kUnitsPerThread * num_threads), 1,
                                       std::min(kMaxHeads, p.heads_o));
  cut.groups = (p.heads_o + cut.heads - 1) / cut.heads;
  return cut;
}

}  // namespace

std::size_t chunk_workspace_bytes(const LinearProblem& problem, int num_threads) {
  return lay_out(dims_of(problem), nullptr, nullptr) * static_cast<std::size_t>(num_threads);
}

Status launch_chunk(const Launch& launch) {
  const LinearProblem& p = std::get<LinearProblem>(launch.call);
  if (launch.schedule.segment_tokens > 0) return launch_segments(launch);
  const Cut cut = cut_sequence(p, launch.facts.num_threads);
  const std::size_t slice = lay_out(dims_of(p), nullptr, nullptr);
  launch.resources.pool.parallel_for(
      p.num_seqs * cut.groups * cut.shares, [&](std::int64_t item, int worker) {
        ChunkBuffers buffers;
        lay_out(dims_of(p), launch.workspace + static_cast<std::size_t>(worker) * slice, &buffers);
        const std::int64_t share = item % cut.shares;
        const std::int64_t group = item / cut.shares % cut.groups;
        const std::int64_t seq = item / cut.shares / cut.groups;
        run_chunk_unit({.problem = &p,
                        .seq = seq,
                        .head_begin = group * cut.heads,
                        .head_end = std::min(p.heads_o, (group + 1) * cut.heads),
                        .begin = 0,
                        .end = seq_len(p, seq),
                        .column_begin = share * cut.columns,
                        .column_end = std::min(p.dim_v, (share + 1) * cut.columns)},
                       buffers);
      });
  return Status();
}

}  // namespace tilegate::cpu_linear
