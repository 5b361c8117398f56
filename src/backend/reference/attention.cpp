// SPDX-License-Identifier: Apache-2.0
// Softmax attention by definition: one (request, row, head) at a time, logits kept whole, fp64
// accumulation. Keys that a row may not see are never read.
#include <cmath>
#include <limits>
#include <vector>

#include "backend/reference/candidates.h"
#include "core/element.h"
#include "problem/lengths.h"

namespace tilegate {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// The larger of two logits; a NaN stays, so that it reaches the output instead of an empty row.
double max_or_nan(double a, double b) { return std::isnan(a) || a > b ? a : b; }

struct Row {
  std::int64_t request;
  std::int64_t row;
  std::int64_t head;
};

double logit(const AttentionProblem& p, const Row& at, std::int64_t key) {
  const std::int64_t kv_head = at.head / p.group_size();
  const std::int64_t q = qo_offset(p, p.q, at.request, at.row) + at.head * p.q.strides[2];
  const std::int64_t k = kv_offset(p, p.k, at.request, key) + kv_head * p.k.strides[2];
  double dot = 0.0;
  for (std::int64_t d = 0; d < p.dim_qk; ++d) {
    dot += static_cast<double>(load_float(p.q.data, p.dtype, q + d)) *
           load_float(p.k.data, p.dtype, k + d);
  }
  const double scaled = dot * p.scale;
  return p.soft_cap > 0 ? p.soft_cap * std::tanh(scaled / p.soft_cap) : scaled;
}

struct VisibleKey {
  std::int64_t key;
  double weight;  // logit, then exp(logit - max)
};

std::vector<VisibleKey> visible_logits(const AttentionProblem& p, const Row& at,
                                       std::int64_t mask_start) {
  const std::int64_t keys = kv_len(p, at.request);
  const IndexRange range = visible_keys(p, at.row, qo_len(p, at.request), keys);
  std::vector<VisibleKey> visible;
  for (std::int64_t j = range.begin; j < range.end; ++j) {
    if (has_custom_mask(p) && !mask_allows(p, mask_start, keys, at.row, j)) continue;
    visible.push_back({j, logit(p, at, j)});
  }
  return visible;
}

void store_lse(const AttentionProblem& p, const Row& at, double natural) {
  if (!p.lse.present()) return;
  const std::int64_t offset = qo_offset(p, p.lse, at.request, at.row) + at.head * p.lse.strides[2];
  const double value = p.lse_base == LseBase::kLog2 ? natural / std::log(2.0) : natural;
  store_float(p.lse.data, DType::kFloat32, offset, static_cast<float>(value));
}

void attend(const AttentionProblem& p, const Row& at, std::int64_t mask_start) {
  std::vector<VisibleKey> keys = visible_logits(p, at, mask_start);
  const double sink = p.sinks.present()
                          ? load_float(p.sinks.data, DType::kFloat32, at.head * p.sinks.strides[0])
                          : -kInf;
  double max = sink;
  for (const VisibleKey& key : keys) max = max_or_nan(max, key.weight);
  const bool empty = max == -kInf;
  double sum = empty ? 0.0 : std::exp(sink - max);
  for (VisibleKey& key : keys) {
    key.weight = empty ? 0.0 : std::exp(key.weight - max);
    sum += key.weight;
  }
  const std::int64_t kv_head = at.head / p.group_size();
  const std::int64_t out = qo_offset(p, p.o, at.request, at.row) + at.head * p.o.strides[2];
  for (std::int64_t d = 0; d < p.dim_v; ++d) {
    double value = 0.0;
    for (const VisibleKey& key : keys) {
      if (key.weight == 0.0) continue;
      const std::int64_t v = kv_offset(p, p.v, at.request, key.key) + kv_head * p.v.strides[2];
      value += key.weight * load_float(p.v.data, p.dtype, v + d);
    }
    store_float(p.o.data, p.dtype, out + d, static_cast<float>(empty ? 0.0 : value / sum));
  }
  store_lse(p, at, empty ? -kInf : max + std::log(sum));
}

Status launch_attention(const Launch& launch) {
  const auto& p = std::get<AttentionProblem>(launch.call);
  for (std::int64_t b = 0; b < p.batch; ++b) {
    const std::int64_t mask_start = has_custom_mask(p) ? mask_begin(p, b) : 0;
    launch.resources.pool.parallel_for(qo_len(p, b) * p.heads_q, [&](std::int64_t item, int) {
      attend(p, {b, item / p.heads_q, item % p.heads_q}, mask_start);
    });
  }
  return {};
}

void append_row(const AppendProblem& p, const TensorView& from, const TensorView& to,
                std::int64_t token) {
  const std::int64_t b = p.batch_indices.present() ? index_at(p.batch_indices, token) : 0;
  const std::int64_t position = index_at(p.positions, token);
  const std::int64_t page = page_id(p, b, position / p.page_size);
  for (std::int64_t h = 0; h < p.heads_kv; ++h) {
    const std::int64_t source = token * from.strides[0] + h * from.strides[1];
    const std::int64_t target =
        page * to.strides[0] + (position % p.page_size) * to.strides[1] + h * to.strides[2];
    const std::int64_t size = size_of(p.dtype);
    std::memcpy(static_cast<char*>(to.data) + target * size,
                static_cast<const char*>(from.data) + source * size,
                static_cast<std::size_t>(from.shape[2] * size));
  }
}

// Serial: when two tokens name one position the later one wins.
Status launch_append(const Launch& launch) {
  const auto& p = std::get<AppendProblem>(launch.call);
  for (std::int64_t t = 0; t < p.tokens; ++t) {
    if (index_at(p.positions, t) < 0) continue;
    append_row(p, p.k, p.k_cache, t);
    append_row(p, p.v, p.v_cache, t);
  }
  return {};
}

void merge_row(const MergeProblem& p, std::int64_t row, std::int64_t head) {
  auto part_lse = [&](std::int64_t part) -> double {
    return load_float(p.s.data, DType::kFloat32,
                      row * p.s.strides[0] + part * p.s.strides[1] + head * p.s.strides[2]);
  };
  double max = -kInf;
  for (std::int64_t i = 0; i < p.parts; ++i) max = max_or_nan(max, part_lse(i));
  const bool empty = max == -kInf;
  double sum = 0.0;
  for (std::int64_t i = 0; i < p.parts && !empty; ++i) sum += std::exp2(part_lse(i) - max);
  for (std::int64_t d = 0; d < p.dim; ++d) {
    double value = 0.0;
    for (std::int64_t i = 0; i < p.parts && !empty; ++i) {
      if (part_lse(i) == -kInf) continue;
      const std::int64_t offset =
          row * p.v.strides[0] + i * p.v.strides[1] + head * p.v.strides[2] + d;
      value += std::exp2(part_lse(i) - max) * load_float(p.v.data, p.dtype, offset);
    }
    store_float(p.o.data, p.dtype, row * p.o.strides[0] + head * p.o.strides[1] + d,
                static_cast<float>(empty ? 0.0 : value / sum));
  }
  if (!p.lse.present()) return;
  store_float(p.lse.data, DType::kFloat32, row * p.lse.strides[0] + head * p.lse.strides[1],
              static_cast<float>(empty ? -kInf : max + std::log2(sum)));
}

Status launch_merge(const Launch& launch) {
  const auto& p = std::get<MergeProblem>(launch.call);
  launch.resources.pool.parallel_for(p.rows * p.heads, [&](std::int64_t item, int) {
    merge_row(p, item / p.heads, item % p.heads);
  });
  return {};
}

template <class Op>
std::optional<std::string> reject_other_ops(const Operation& op, const DeviceFacts&) {
  if (std::holds_alternative<Op>(op)) return std::nullopt;
  return std::string(kOtherOperation);
}

double cost_us(const Operation&, const DeviceFacts&) { return kLastResortUs; }

Schedule schedule(const Operation&, const DeviceFacts&) {
  return {.note = "one row at a time, fp64"};
}

constexpr Candidate kCandidates[] = {
    {"reference.attention", Backend::kReference, reject_other_ops<AttentionProblem>, cost_us,
     schedule, launch_attention},
    {"reference.append", Backend::kReference, reject_other_ops<AppendProblem>, cost_us, schedule,
     launch_append},
    {"reference.merge", Backend::kReference, reject_other_ops<MergeProblem>, cost_us, schedule,
     launch_merge},
};

}  // namespace

std::span<const Candidate> reference_attention_candidates() { return kCandidates; }

}  // namespace tilegate
