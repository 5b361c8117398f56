// SPDX-License-Identifier: Apache-2.0
// cpu.append: k [tokens, heads, dim_k] and v [tokens, heads, dim_v] to their places in the caches.
// Rows are copied as bytes, runs of tokens in parallel; positions must name each place once. Bound
// by memory.
#include <algorithm>
#include <cstring>

#include "backend/cpu/attention/launch.h"
#include "problem/lengths.h"

namespace tilegate::cpu {
namespace {

constexpr std::int64_t kTokensPerItem = 32;

// Place of a token in its cache.
struct Slot {
  std::int64_t page = 0;
  std::int64_t at = 0;
};

void copy_heads(const TensorView& from, std::int64_t token, const TensorView& to,
                const Slot& slot) {
  const std::int64_t bytes = size_of(from.dtype);
  const auto* source = static_cast<const std::byte*>(from.data) + token * from.strides[0] * bytes;
  auto* target = static_cast<std::byte*>(to.data) +
                 (slot.page * to.strides[0] + slot.at * to.strides[1]) * bytes;
  for (std::int64_t head = 0; head < from.shape[1]; ++head) {
    std::memcpy(target + head * to.strides[2] * bytes, source + head * from.strides[1] * bytes,
                static_cast<std::size_t>(from.shape[2] * bytes));
  }
}

void append_token(const AppendProblem& problem, std::int64_t token) {
  const std::int64_t position = index_at(problem.positions, token);
  if (position < 0) return;
  const std::int64_t request =
      problem.batch_indices.present() ? index_at(problem.batch_indices, token) : 0;
  const Slot slot{.page = page_id(problem, request, position / problem.page_size),
                  .at = position % problem.page_size};
  copy_heads(problem.k, token, problem.k_cache, slot);
  copy_heads(problem.v, token, problem.v_cache, slot);
}

}  // namespace

std::optional<std::string> append_reject(const Operation& op, const DeviceFacts& facts) {
  if (!std::holds_alternative<AppendProblem>(op)) return std::string(kOtherOperation);
  if (facts.type != DeviceType::kCpu) return "tensors must be in host memory";
  return std::nullopt;
}

double append_cost_us(const Operation& op, const DeviceFacts& facts) {
  const auto& problem = std::get<AppendProblem>(op);
  const auto rows = static_cast<double>(problem.tokens * problem.heads_kv);
  const double bytes = 2.0 * rows * static_cast<double>(problem.dim_k + problem.dim_v) *
                       static_cast<double>(size_of(problem.dtype));
  constexpr double kBytesPerUs = 8e3;  // one thread
  return 1.0 + bytes / kBytesPerUs / std::max(facts.num_threads, 1);
}

Schedule append_schedule(const Operation&, const DeviceFacts&) {
  Schedule schedule;
  schedule.note = "rows copied as they are";
  return schedule;
}

Status append_launch(const Launch& launch) {
  const auto& problem = std::get<AppendProblem>(launch.call);
  const std::int64_t items = (problem.tokens + kTokensPerItem - 1) / kTokensPerItem;
  launch.resources.pool.parallel_for(items, [&](std::int64_t item, int) {
    const std::int64_t begin = item * kTokensPerItem;
    const std::int64_t end = std::min(begin + kTokensPerItem, problem.tokens);
    for (std::int64_t token = begin; token < end; ++token) append_token(problem, token);
  });
  return {};
}

}  // namespace tilegate::cpu
