// SPDX-License-Identifier: Apache-2.0
// The context-parallel form, parallel over segments of kSegmentTokens tokens counted from the start
// of each sequence. A segment maps its incoming state S to M S + N.
//   1. segment 0 runs in full; inner segments compute N (from zero) and M (from the identity)
//   2. scan: boundary[s] = M_s boundary[s - 1] + N_s, per head and panel of columns
//   3. segments 1.. run in full from their boundary
// About three times the work of one walk, so it pays only with many more threads than heads. The
// cut depends on token positions alone, so bits do not depend on batch or threads. boundary[s] of
// a sequence lives where its N_s was written.
#include <algorithm>
#include <cstring>

#include "backend/cpu/linear/launch.h"
#include "backend/cpu/linear/unit.h"
#include "problem/sequences.h"

namespace tilegate::cpu_linear {
namespace {

ChunkDims dims_of(const LinearProblem& p) {
  return {.dim_k = p.dim_k, .columns = std::max(p.dim_k, p.dim_v)};
}

// Boundaries between segments, of all sequences together, at most.
std::int64_t max_boundaries(const LinearProblem& p) {
  if (p.uniform_len >= 0) return p.num_seqs * (p.uniform_len / kSegmentTokens);
  return p.tokens / kSegmentTokens;
}

struct Segment {
  std::int64_t seq = 0;
  std::int64_t number = 0;  // within the sequence
  std::int64_t count = 1;   // of the sequence
};

struct Segments {
  const LinearProblem& p;
  std::int64_t* first = nullptr;  // [num_seqs + 1] first segment of each sequence
  float* states = nullptr;        // [boundaries][heads_o][K] x V, panels
  float* transitions = nullptr;   // [boundaries][heads_o][K] x K, panels
  std::byte* slices = nullptr;    // scratch of the workers

  std::int64_t state_floats() const { return p.dim_k * round_up(p.dim_v, kMaxPanel); }
  std::int64_t transition_floats() const { return p.dim_k * round_up(p.dim_k, kMaxPanel); }
  std::int64_t total() const { return first[p.num_seqs]; }

  Segment at(std::int64_t index) const {
    const std::int64_t* after = std::upper_bound(first, first + p.num_seqs + 1, index);
    const std::int64_t seq = after - first - 1;
    return {.seq = seq, .number = index - first[seq], .count = first[seq + 1] - first[seq]};
  }
  // Every sequence has one boundary less than segments.
  std::int64_t boundary(std::int64_t seq, std::int64_t number, std::int64_t head) const {
    return (first[seq] - seq + number) * p.heads_o + head;
  }
  float* state(std::int64_t seq, std::int64_t number, std::int64_t head) const {
    return states + boundary(seq, number, head) * state_floats();
  }
  float* transition(std::int64_t seq, std::int64_t number, std::int64_t head) const {
    return transitions + boundary(seq, number, head) * transition_floats();
  }
};

// Bytes of the workspace; fills the pointers when base is not null.
std::size_t lay_out_segments(std::byte* base, int num_threads, Segments& s) {
  const std::int64_t pairs = max_boundaries(s.p) * s.p.heads_o;
  std::size_t used = 0;
  const auto take = [&](std::int64_t bytes) {
    std::byte* at = base != nullptr ? base + used : nullptr;
    used += static_cast<std::size_t>(round_up(bytes, 64));
    return at;
  };
  s.first = reinterpret_cast<std::int64_t*>(take((s.p.num_seqs + 1) * 8));
  s.states = reinterpret_cast<float*>(take(pairs * s.state_floats() * 4));
  s.transitions = reinterpret_cast<float*>(take(pairs * s.transition_floats() * 4));
  s.slices = take(static_cast<std::int64_t>(lay_out(dims_of(s.p), nullptr, nullptr)) * num_threads);
  return used;
}

void number_segments(const Segments& s) {
  s.first[0] = 0;
  for (std::int64_t i = 0; i < s.p.num_seqs; ++i) {
    const std::int64_t count = (seq_len(s.p, i) + kSegmentTokens - 1) / kSegmentTokens;
    s.first[i + 1] = s.first[i] + std::max<std::int64_t>(1, count);
  }
}

ChunkBuffers worker_buffers(const Segments& s, int worker) {
  ChunkBuffers buffers;
  const std::size_t slice = lay_out(dims_of(s.p), nullptr, nullptr);
  lay_out(dims_of(s.p), s.slices + static_cast<std::size_t>(worker) * slice, &buffers);
  return buffers;
}

ChunkUnit segment_unit(const Segments& s, const Segment& segment, std::int64_t head) {
  const std::int64_t begin = segment.number * kSegmentTokens;
  return {.problem = &s.p,
          .seq = segment.seq,
          .head_begin = head,
          .head_end = head + 1,
          .begin = begin,
          .end = std::min(seq_len(s.p, segment.seq), begin + kSegmentTokens),
          .column_begin = 0,
          .column_end = s.p.dim_v};
}

enum class Pass : std::uint8_t { kFromZero, kTransition };

void precompute(const Segments& s, std::int64_t item, int worker) {
  const Pass pass = item % 2 == 0 ? Pass::kFromZero : Pass::kTransition;
  const std::int64_t head = item / 2 % s.p.heads_o;
  const Segment segment = s.at(item / 2 / s.p.heads_o);
  const bool first = segment.number == 0;
  const bool last = segment.number + 1 == segment.count;
  if (is_skipped(s.p, segment.seq) && !first) return;
  if ((last && !first) || (first && pass == Pass::kTransition)) return;
  ChunkUnit unit = segment_unit(s, segment, head);
  unit.seed = first ? Seed::kInitial : Seed::kZero;
  unit.emit = first ? Emit::kBoundary : Emit::kState;
  if (first && last) unit.emit = Emit::kAll;
  if (!last) unit.boundary = s.state(segment.seq, segment.number, head);
  if (pass == Pass::kTransition) {
    unit.seed = Seed::kIdentity;
    unit.column_end = s.p.dim_k;
    unit.boundary = s.transition(segment.seq, segment.number, head);
  }
  run_chunk_unit(unit, worker_buffers(s, worker));
}

void scan(const Segments& s, std::int64_t item) {
  const std::int64_t panels = round_up(s.p.dim_v, kMaxPanel) / kMaxPanel;
  const std::int64_t column = item % panels * kMaxPanel;
  const std::int64_t head = item / panels % s.p.heads_o;
  const std::int64_t seq = item / panels / s.p.heads_o;
  if (is_skipped(s.p, seq)) return;
  const std::int64_t count = s.first[seq + 1] - s.first[seq];
  for (std::int64_t number = 1; number + 1 < count; ++number) {
    float* state = s.state(seq, number, head);
    run_scan_step({.dim_k = s.p.dim_k,
                   .column_begin = column,
                   .column_end = column + kMaxPanel,
                   .transition = s.transition(seq, number, head),
                   .in = s.state(seq, number - 1, head),
                   .from_zero = state,
                   .out = state});
  }
}

void walk_seeded(const Segments& s, std::int64_t item, int worker) {
  const std::int64_t head = item % s.p.heads_o;
  const Segment segment = s.at(item / s.p.heads_o);
  if (segment.number == 0) return;
  ChunkUnit unit = segment_unit(s, segment, head);
  if (!is_skipped(s.p, segment.seq)) {
    unit.seed = Seed::kBuffer;
    unit.seed_boundary = s.state(segment.seq, segment.number - 1, head);
  }
  run_chunk_unit(unit, worker_buffers(s, worker));
}

}  // namespace

std::size_t segments_workspace_bytes(const LinearProblem& problem, int num_threads) {
  Segments segments{.p = problem};
  return lay_out_segments(nullptr, num_threads, segments);
}

Status launch_segments(const Launch& launch) {
  Segments s{.p = std::get<LinearProblem>(launch.call)};
  lay_out_segments(launch.workspace, launch.facts.num_threads, s);
  number_segments(s);
  ThreadPool& pool = launch.resources.pool;
  const std::int64_t pairs = s.total() * s.p.heads_o;
  pool.parallel_for(pairs * 2, [&](std::int64_t i, int worker) { precompute(s, i, worker); });
  const std::int64_t panels = round_up(s.p.dim_v, kMaxPanel) / kMaxPanel;
  pool.parallel_for(s.p.num_seqs * s.p.heads_o * panels, [&](std::int64_t i, int) { scan(s, i); });
  pool.parallel_for(pairs, [&](std::int64_t i, int worker) { walk_seeded(s, i, worker); });
  return Status();
}

}  // namespace tilegate::cpu_linear
