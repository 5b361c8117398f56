// SPDX-License-Identifier: Apache-2.0
// append_paged_kv on the GPU.

#include <algorithm>

#include "backend/cuda/attention/paged.h"
#include "backend/cuda/attention/rows.h"
#include "backend/cuda/attention/rows_launch.h"
#include "backend/cuda/check.h"

namespace tilegate {
namespace {

constexpr double kLaunchUs = 2.0;

kernel::AppendSide side_of(const TensorView& tokens, const TensorView& cache,
                           std::int64_t word_bytes) {
  const std::int64_t size = size_of(tokens.dtype);
  kernel::AppendSide side;
  side.tokens = static_cast<const char*>(tokens.data);
  side.cache = static_cast<char*>(cache.data);
  side.token = tokens.strides[0] * size;
  side.token_head = stride_of(tokens, 1) * size;
  side.page = cache.strides[0] * size;
  side.slot = stride_of(cache, 1) * size;
  side.cache_head = stride_of(cache, 2) * size;
  side.chunks = static_cast<int>(tokens.shape[2] * size / word_bytes);
  return side;
}

// Rows that give a thread several chunks where there are enough for all SMs, else one.
int rows_per_block(std::int64_t tokens, int per_row) {
  constexpr std::int64_t kEnoughBlocks = 512;
  constexpr int kMostChunks = 4;
  const std::int64_t least = std::max(1, kRowThreads / per_row);
  const std::int64_t most = std::max(1, kMostChunks * kRowThreads / per_row);
  return static_cast<int>(std::clamp(tokens / kEnoughBlocks, least, most));
}

}  // namespace

std::optional<std::string> append_reject(const Operation& op, const DeviceFacts&) {
  const auto* p = std::get_if<AppendProblem>(&op);
  if (p == nullptr) return std::string(kOtherOperation);
  if (auto reason = index_rejection("batch_indices", p->batch_indices)) return reason;
  if (auto reason = index_rejection("positions", p->positions)) return reason;
  return page_table_rejection(*p);
}

double append_cost_us(const Operation& op, const DeviceFacts& facts) {
  const auto& p = std::get<AppendProblem>(op);
  const double elements = static_cast<double>(p.tokens * p.heads_kv * (p.dim_k + p.dim_v));
  return kLaunchUs +
         2.0 * elements * static_cast<double>(size_of(p.dtype)) / (facts.bandwidth_gbps * 1e3);
}

Schedule row_schedule(const Operation&, const DeviceFacts&) { return {}; }

Status append_launch(const Launch& launch) {
  const auto& p = std::get<AppendProblem>(launch.call);
  if (p.tokens == 0 || p.heads_kv == 0) return {};
  const bool words = moves_in_words(p.k) && moves_in_words(p.v) && moves_in_words(p.k_cache) &&
                     moves_in_words(p.v_cache);
  const std::int64_t word_bytes = words ? kWordBytes : size_of(p.dtype);
  kernel::AppendParams params;
  params.sides[0] = side_of(p.k, p.k_cache, word_bytes);
  params.sides[1] = side_of(p.v, p.v_cache, word_bytes);
  params.table = page_table_params(p);
  params.batch_indices = index_array(p.batch_indices);
  params.positions = index_array(p.positions);
  params.tokens = p.tokens;
  params.heads = static_cast<int>(p.heads_kv);
  const int per_row = params.heads * std::max({params.sides[0].chunks, params.sides[1].chunks, 1});
  params.rows_per_block = rows_per_block(p.tokens, per_row);
  return cuda_status(launch_append(params, word_bytes, static_cast<cudaStream_t>(launch.stream)),
                     "launching cuda.append");
}

}  // namespace tilegate
