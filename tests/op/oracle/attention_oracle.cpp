// SPDX-License-Identifier: Apache-2.0
// One (row, head) at a time: logits, masks as IEEE -inf, softmax with the sink as one more logit.
#include "tests/op/oracle/attention_oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace laws {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Row {
  std::size_t request;
  std::int64_t i;           // row in the request
  std::int64_t q_row;       // row of q
  std::int64_t k_row;       // first key of the request
  std::int64_t mask_start;  // first mask entry of the row
  std::int64_t head;
};

bool sees(const AttentionCall& call, const Row& row, std::int64_t j) {
  const std::int64_t diagonal = row.i + call.kv_lens[row.request] - call.qo_lens[row.request];
  const bool causal = call.options.causal || call.form == AttentionCall::Form::kDecode;
  if (causal && j > diagonal) return false;
  if (call.options.window_left >= 0 && j < diagonal - call.options.window_left) return false;
  if (call.options.window_right >= 0 && j > diagonal + call.options.window_right) return false;
  if (!call.visible.empty()) {
    return call.visible[static_cast<std::size_t>(row.mask_start + j)] != 0;
  }
  return true;
}

double logit(const AttentionCall& call, const Tensor& q, const Row& row, std::int64_t j) {
  const std::int64_t dim = call.keys.dim(2);
  const std::int64_t kv_head = row.head / (q.dim(1) / call.keys.dim(1));
  double x = 0.0;
  for (std::int64_t d = 0; d < dim; ++d) {
    x += q.at(row.q_row, row.head, d) * call.keys.at(row.k_row + j, kv_head, d);
  }
  const double scale = call.options.scale.value_or(1.0 / std::sqrt(static_cast<double>(dim)));
  const double cap = call.options.logits_soft_cap;
  return cap > 0.0 ? cap * std::tanh(x * scale / cap) : x * scale;
}

void attend(const AttentionCall& call, const Tensor& q, const Row& row, AttentionAnswer& answer) {
  const std::int64_t keys = call.kv_lens[row.request], dim_v = call.values.dim(2);
  const std::int64_t kv_head = row.head / (q.dim(1) / call.keys.dim(1));
  const double sink = call.sinks.present() ? call.sinks.at(row.head) : -kInfinity;
  std::vector<double> logits(static_cast<std::size_t>(keys), -kInfinity);
  double highest = sink;
  for (std::int64_t j = 0; j < keys; ++j) {
    if (!sees(call, row, j)) continue;
    const double s = logit(call, q, row, j);
    logits[static_cast<std::size_t>(j)] = s;
    if (!(s <= highest) && !std::isnan(highest)) highest = s;  // a NaN stays
  }
  std::vector<double> o(static_cast<std::size_t>(dim_v), 0.0);
  double lse = -kInfinity;
  if (highest != -kInfinity) {
    double sum = std::exp(sink - highest);
    for (double s : logits) sum += std::exp(s - highest);
    for (std::int64_t j = 0; j < keys; ++j) {
      const double p = std::exp(logits[static_cast<std::size_t>(j)] - highest) / sum;
      if (p == 0.0) continue;
      for (std::int64_t d = 0; d < dim_v; ++d) {
        o[static_cast<std::size_t>(d)] += p * call.values.at(row.k_row + j, kv_head, d);
      }
    }
    lse = highest + std::log(sum);
  }
  if (call.options.lse_base == tilegate::LseBase::kLog2) lse *= std::numbers::log2e;
  answer.o.insert(answer.o.end(), o.begin(), o.end());
  answer.lse.push_back(lse);
}

}  // namespace

AttentionAnswer attention_oracle(const AttentionCall& call) {
  AttentionAnswer answer;
  Tensor q = call.q;
  if (call.form == AttentionCall::Form::kDense) {
    const Dims shape = {q.dim(0) * q.dim(1), q.dim(2), q.dim(3)};
    q = q.reshaped(shape, {q.strides()[1], q.strides()[2], q.strides()[3]});
  }
  Row row{};
  for (std::size_t b = 0; b < call.qo_lens.size(); ++b) {
    row.request = b;
    for (row.i = 0; row.i < call.qo_lens[b]; ++row.i, ++row.q_row) {
      for (row.head = 0; row.head < q.dim(1); ++row.head) attend(call, q, row, answer);
      row.mask_start += call.kv_lens[b];
    }
    row.k_row += call.kv_lens[b];
  }
  return answer;
}

}  // namespace laws
