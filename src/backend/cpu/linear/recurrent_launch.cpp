// SPDX-License-Identifier: Apache-2.0
// One unit for every sequence, head and share of the V rows: with few (sequence, head) pairs the
// rows are shared out, at least 16 a unit, which changes no bit.
#include <algorithm>

#include "backend/cpu/linear/launch.h"
#include "backend/cpu/linear/recurrent_buffers.h"
#include "backend/cpu/linear/unit.h"

namespace tilegate::cpu_linear {
namespace {

constexpr std::int64_t kMinRows = 16;
constexpr std::int64_t kUnitsPerThread = 4;

std::int64_t rows_per_unit(std::int64_t pairs, std::int64_t dim_v, int num_threads) {
  const std::int64_t wanted = kUnitsPerThread * num_threads;
  const std::int64_t shares = std::max<std::int64_t>(1, wanted / std::max<std::int64_t>(1, pairs));
  return std::max(kMinRows, round_up((dim_v + shares - 1) / shares, 8));
}

// Bytes of one worker's slice.
std::size_t slice_bytes(std::int64_t dim_k, std::int64_t dim_v) {
  return static_cast<std::size_t>(round_up(lay_out(dim_k, dim_v, nullptr, nullptr), 16)) *
         sizeof(float);
}

// Calls run(unit, scratch) for every unit of the problem.
template <class Unit, class Problem>
void for_each_unit(const Launch& launch, const Problem& p, void (*run)(const Unit&, float*)) {
  const std::int64_t pairs = p.num_seqs * p.heads_o;
  const std::int64_t rows = rows_per_unit(pairs, p.dim_v, launch.facts.num_threads);
  const std::int64_t shares = (p.dim_v + rows - 1) / rows;
  const std::size_t slice = slice_bytes(p.dim_k, p.dim_v);
  launch.resources.pool.parallel_for(pairs * shares, [&](std::int64_t item, int worker) {
    const std::int64_t share = item % shares;
    const Unit unit = {.problem = &p,
                       .seq = item / shares / p.heads_o,
                       .head = item / shares % p.heads_o,
                       .row_begin = share * rows,
                       .row_end = std::min(p.dim_v, (share + 1) * rows)};
    std::byte* scratch = launch.workspace + static_cast<std::size_t>(worker) * slice;
    run(unit, reinterpret_cast<float*>(scratch));
  });
}

}  // namespace

std::size_t recurrent_workspace_bytes(std::int64_t dim_k, std::int64_t dim_v, int num_threads) {
  return slice_bytes(dim_k, dim_v) * static_cast<std::size_t>(num_threads);
}

Status launch_recurrent(const Launch& launch) {
  for_each_unit<RecurrentUnit>(launch, std::get<LinearProblem>(launch.call), &run_recurrent_unit);
  return Status();
}

Status launch_commit(const Launch& launch) {
  for_each_unit<CommitUnit>(launch, std::get<CommitProblem>(launch.call), &run_commit_unit);
  return Status();
}

}  // namespace tilegate::cpu_linear
