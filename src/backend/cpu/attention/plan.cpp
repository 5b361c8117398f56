// SPDX-License-Identifier: Apache-2.0
// Reject, cost and schedule of cpu.flash, and its workspace.
#include "backend/cpu/attention/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend/cpu/attention/launch.h"

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

FlashState take_state(std::byte* base, std::size_t* used, std::int64_t dim_v) {
  return {.o = take<float>(base, used, kRowTile * dim_v),
          .m = take<float>(base, used, kRowTile),
          .l = take<float>(base, used, kRowTile)};
}

}  // namespace

std::size_t lay_out_scratch(const AttentionProblem& problem, std::byte* base,
                            FlashScratch* scratch) {
  const std::int64_t dim_v = round_up(problem.dim_v, kMaxLanes);
  const bool custom = problem.custom_mask.present() || problem.packed_custom_mask.present();
  std::size_t used = 0;
  FlashScratch s;
  s.q = take<float>(base, &used, problem.dim_qk * kRowTile);
  s.p = take<float>(base, &used, kKeyTile * kRowTile);
  s.k = take<float>(base, &used, kKeyTile * problem.dim_qk);
  s.v = take<float>(base, &used, kKeyTile * dim_v);
  s.part = take_state(base, &used, dim_v);
  s.total = take_state(base, &used, dim_v);
  s.alpha = take<float>(base, &used, kRowTile);
  s.first = take<float>(base, &used, kRowTile);
  s.last = take<float>(base, &used, kRowTile);
  if (custom) s.allowed = take<float>(base, &used, kKeyTile * kRowTile);
  s.begin = take<std::int64_t>(base, &used, kRowTile);
  s.end = take<std::int64_t>(base, &used, kRowTile);
  if (scratch != nullptr) *scratch = s;
  return used;
}

FlashPlan plan_flash(const AttentionProblem& problem, int num_threads) {
  FlashPlan plan;
  plan.kv_split = keys_per_split(problem);
  const std::int64_t max_rows = problem.max_qo_len * problem.group_size();
  plan.tile_rows = round_up(std::clamp<std::int64_t>(max_rows, 1, kRowTile), kMaxLanes);
  plan.part_floats = plan.tile_rows * (round_up(problem.dim_v, kMaxLanes) + 2);
  plan.index_bytes = static_cast<std::size_t>(3 * round_up((problem.batch + 1) * 8, 64));
  plan.scratch_bytes = lay_out_scratch(problem, nullptr, nullptr);

  const std::int64_t row_tiles = (max_rows + kRowTile - 1) / kRowTile;
  const std::int64_t tiles = problem.batch * problem.heads_kv * row_tiles;
  const std::int64_t splits = split_count(problem.max_kv_len, plan.kv_split);
  const bool starved = row_tiles <= 1 || tiles < 4 * num_threads;
  if (num_threads > 1 && splits > 1 && tiles > 0 && starved) {
    const std::int64_t fit = kMaxPartBytes / (plan.part_floats * 4);
    if (splits <= fit / tiles) plan.max_parts = tiles * splits;
  }
  plan.total_bytes = plan.index_bytes +
                     plan.scratch_bytes * static_cast<std::size_t>(std::max(num_threads, 1)) +
                     static_cast<std::size_t>(plan.max_parts * plan.part_floats * 4);
  return plan;
}

std::optional<std::string> flash_reject(const Operation& op, const DeviceFacts& facts) {
  const auto* problem = std::get_if<AttentionProblem>(&op);
  if (problem == nullptr) return "the call must be softmax attention";
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
  schedule.note = fmt::format("tiles of {} rows x {} keys, {}", kRowTile, kKeyTile,
                              plan.kv_split == 0
                                  ? std::string("one KV split")
                                  : fmt::format("KV splits of {} keys {}", plan.kv_split,
                                                plan.max_parts > 0 ? "in parallel" : "in order"));
  return schedule;
}

}  // namespace tilegate::cpu
