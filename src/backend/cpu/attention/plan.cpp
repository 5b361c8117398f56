// SPDX-License-Identifier: Apache-2.0
// Reject, cost and schedule of cpu.flash, and its workspace.
#include "backend/cpu/attention/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend/cpu/attention/launch.h"
#include "problem/lengths.h"

namespace tilegate::cpu {
namespace {

// Long enough that folding states costs nothing, short enough that one long request feeds many
// threads. Constants: the bounds of splits must not depend on the batch or the machine.
constexpr std::int64_t kDecodeSplit = 1024;
constexpr std::int64_t kPrefillSplit = 4096;
constexpr std::int64_t kMaxPartBytes = std::int64_t{64} << 20;

// Rates for the cost model, one thread with AVX-512: FMA of a full tile, and bytes of K and V.
constexpr double kFlopsPerUs = 60e3;
constexpr double kBytesPerUs = 8e3;

std::int64_t keys_per_split(const AttentionProblem& problem) {
  if (problem.disable_split_kv) return 0;
  if (problem.fixed_split_size > 0) return problem.fixed_split_size;
  return problem.op == AttentionOp::kDecodePaged ? kDecodeSplit : kPrefillSplit;
}

template <class T>
T* take(std::byte* base, std::size_t* used, std::int64_t count) {
  const std::size_t at = *used;
  *used += static_cast<std::size_t>(round_up(count * static_cast<std::int64_t>(sizeof(T)), 64));
  return base == nullptr ? nullptr : reinterpret_cast<T*>(base + at);
}

// KV heads of an item: several when rows are few, while there are items for all threads.
int heads_per_item(const AttentionProblem& problem, std::int64_t tile_rows, std::int64_t parts,
                   int num_threads) {
  if (tile_rows > kFewRows) return 1;
  const std::int64_t items = num_threads > 1 ? 4 * num_threads : 1;
  const std::int64_t wanted = parts * problem.heads_kv / items;
  const std::int64_t most = std::min<std::int64_t>(kMaxItemHeads, problem.heads_kv);
  return static_cast<int>(std::clamp<std::int64_t>(wanted, 1, most));
}

}  // namespace

FlashState lay_out_state(const AttentionProblem& problem, const FlashPlan& plan, float* base) {
  if (base == nullptr) return {};
  const std::int64_t dim_v = round_up(problem.dim_v, kMaxLanes);
  return {.o = base,
          .m = base + plan.tile_rows * dim_v,
          .l = base + plan.tile_rows * (dim_v + 1),
          .floats = plan.state_floats};
}

std::size_t lay_out_scratch(const AttentionProblem& problem, const FlashPlan& plan, std::byte* base,
                            FlashScratch* scratch) {
  const std::int64_t dim_v = round_up(problem.dim_v, kMaxLanes);
  const std::int64_t rows = plan.tile_rows;
  const std::int64_t states = plan.item_heads * plan.state_floats;
  std::size_t used = 0;
  FlashScratch s;
  s.q = take<float>(base, &used, plan.item_heads * problem.dim_qk * rows);
  s.p = take<float>(base, &used, plan.key_tile * rows);
  s.k = take<float>(base, &used, plan.key_tile * std::max(problem.dim_qk, dim_v));
  s.v = s.k;
  s.part = lay_out_state(problem, plan, take<float>(base, &used, states));
  s.total = lay_out_state(problem, plan, take<float>(base, &used, states));
  s.alpha = take<float>(base, &used, rows);
  s.first = take<float>(base, &used, rows);
  s.last = take<float>(base, &used, rows);
  if (has_custom_mask(problem)) s.allowed = take<float>(base, &used, plan.key_tile * rows);
  s.begin = take<std::int64_t>(base, &used, rows);
  s.end = take<std::int64_t>(base, &used, rows);
  if (scratch != nullptr) *scratch = s;
  return used;
}

FlashPlan plan_flash(const AttentionProblem& problem, int num_threads) {
  FlashPlan plan;
  plan.kv_split = keys_per_split(problem);
  const std::int64_t max_rows = problem.max_qo_len * problem.group_size();
  plan.tile_rows = round_up(std::clamp<std::int64_t>(max_rows, 1, kRowTile), kMaxLanes);
  // By the shape of the call, not by lengths: the tile is part of the order of summation.
  const bool few_rows = problem.op == AttentionOp::kDecodePaged && plan.tile_rows <= kFewRows;
  plan.key_tile = few_rows ? kDecodeKeyTile : kKeyTile;
  plan.state_floats = plan.tile_rows * (round_up(problem.dim_v, kMaxLanes) + 2);
  plan.index_bytes = static_cast<std::size_t>(3 * round_up((problem.batch + 1) * 8, 64));

  const std::int64_t row_tiles = (max_rows + plan.tile_rows - 1) / plan.tile_rows;
  const std::int64_t tiles = problem.batch * problem.heads_kv * row_tiles;
  const std::int64_t splits = split_count(problem.max_kv_len, plan.kv_split);
  const bool starved = row_tiles <= 1 || tiles < 4 * num_threads;
  if (num_threads > 1 && splits > 1 && tiles > 0 && starved) {
    const std::int64_t fit = kMaxPartBytes / (plan.state_floats * 4);
    if (splits <= fit / tiles) plan.max_parts = tiles * splits;
  }
  const std::int64_t walked = problem.batch * (plan.max_parts > 0 ? splits : 1);
  plan.item_heads = heads_per_item(problem, plan.tile_rows, walked, num_threads);
  plan.scratch_bytes = lay_out_scratch(problem, plan, nullptr, nullptr);
  plan.total_bytes = plan.index_bytes +
                     plan.scratch_bytes * static_cast<std::size_t>(std::max(num_threads, 1)) +
                     static_cast<std::size_t>(plan.max_parts * plan.state_floats * 4);
  return plan;
}

std::optional<std::string> flash_reject(const Operation& op, const DeviceFacts& facts) {
  const auto* problem = std::get_if<AttentionProblem>(&op);
  if (problem == nullptr) return std::string(kOtherOperation);
  if (facts.type != DeviceType::kCpu) return "tensors must be in host memory";
  for (const std::int64_t dim : {problem->dim_qk, problem->dim_v}) {
    if (dim % 8 == 0 && dim >= 8 && dim <= kMaxHeadDim) continue;
    return fmt::format("head dims must be multiples of 8 up to {}, got {} and {}", kMaxHeadDim,
                       problem->dim_qk, problem->dim_v);
  }
  return std::nullopt;
}

double flash_cost_us(const Operation& op, const DeviceFacts& facts) {
  const auto& problem = std::get<AttentionProblem>(op);
  const double threads = std::max(facts.num_threads, 1);
  const auto dims = static_cast<double>(problem.dim_qk + problem.dim_v);
  const auto keys = static_cast<double>(problem.max_kv_len);
  const auto rows = static_cast<double>(problem.total_q * problem.heads_q);
  const double flops = 2.0 * rows * keys * dims;
  const double bytes = static_cast<double>(problem.batch * problem.heads_kv) * keys * dims *
                       static_cast<double>(size_of(problem.dtype));
  return 5.0 + std::max(flops / kFlopsPerUs, bytes / kBytesPerUs) / threads;
}

Schedule flash_schedule(const Operation& op, const DeviceFacts& facts) {
  const auto& problem = std::get<AttentionProblem>(op);
  const FlashPlan plan = plan_flash(problem, facts.num_threads);
  Schedule schedule;
  schedule.workspace_bytes = plan.total_bytes;
  schedule.kv_split = plan.kv_split;
  schedule.pinned_bits = true;
  schedule.note = fmt::format("tiles of {} rows x {} keys, {}", plan.tile_rows, plan.key_tile,
                              plan.kv_split == 0
                                  ? std::string("one KV split")
                                  : fmt::format("KV splits of {} keys {}", plan.kv_split,
                                                plan.max_parts > 0 ? "in parallel" : "in order"));
  return schedule;
}

}  // namespace tilegate::cpu
