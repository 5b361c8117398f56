// SPDX-License-Identifier: Apache-2.0
// Names and unavoidable work of the shapes. A causal row sees the keys up to its diagonal, which is
// aligned to the bottom right.
#include "bench/rows/shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace tilegate::bench {
namespace {

constexpr double kIndexBytes = 4.0;  // page table entries, offsets, lengths and slots are int32
constexpr double kGateBytes = 4.0;   // gates and beta are fp32 unless raw

// Pairs of a query row and a key it sees, for one head of one request.
double visible_pairs(const AttentionShape& s) {
  const auto q = static_cast<double>(s.query_length), kv = static_cast<double>(s.kv_length);
  if (!s.causal && s.op != AttentionOp::kDecode) return q * kv;
  const double rows = std::min(q, kv);  // rows above them see nothing
  return rows * (kv - rows) + rows * (rows + 1.0) / 2.0;
}

Cost attention_work(const AttentionShape& s) {
  const auto batch = static_cast<double>(s.batch_size), dim = static_cast<double>(s.head_size);
  const auto element = static_cast<double>(size_of(s.dtype));
  const auto heads = static_cast<double>(s.num_heads), kv = static_cast<double>(s.kv_length);
  const double rows = batch * static_cast<double>(s.query_length) * heads;
  const double keys = batch * kv * static_cast<double>(s.num_kv_heads);
  Cost cost;
  cost.flops = 4.0 * batch * heads * dim * visible_pairs(s);
  cost.bytes = 2.0 * (rows + keys) * dim * element;
  if (s.op != AttentionOp::kPrefill) {
    const double pages = std::ceil(kv / static_cast<double>(s.page_size));
    cost.bytes += batch * (pages + 1.0) * kIndexBytes;
  }
  return cost;
}

// A token and state head costs a prediction and an update a Householder row, and one readout: each
// V * K multiply-adds.
Cost linear_work(const LinearShape& s) {
  const auto tokens = static_cast<double>(s.tokens()), dim = static_cast<double>(s.head_size);
  const auto rows = static_cast<double>(s.num_householder);
  const auto heads_v = static_cast<double>(s.heads_v), heads_qk = static_cast<double>(s.heads_qk);
  const double heads = std::max(heads_v, heads_qk);
  const auto element = static_cast<double>(size_of(s.dtype));
  Cost cost;
  cost.flops = tokens * heads * 2.0 * dim * dim * (2.0 * rows + 1.0);
  const double streams = heads_qk * (1.0 + rows) + heads_v * rows + heads;  // q, k, v, o
  cost.bytes = tokens * dim * element * streams;
  const bool by_channel = s.rule == Rule::kKda || s.rule == Rule::kGdn2;
  // Raw gates and logits have q's dtype.
  const bool raw = s.raw_gates();
  const double gate = by_channel ? dim : 1.0;
  const double beta = s.rule == Rule::kGdn2 ? 2.0 * dim : rows;  // GDN-2: erase and write
  cost.bytes += tokens * heads * (gate + beta) * (raw ? element : kGateBytes);
  const double states = s.decode ? 2.0 : 1.0;  // read and written, or written
  cost.bytes += static_cast<double>(s.batch_size()) * heads * dim * dim * states *
                static_cast<double>(size_of(s.state_dtype));
  return cost;
}

std::string name_of(const AttentionShape& s) {
  return fmt::format("{} B{} Q{} KV{} {}/{} D{} {}{}", to_string(s.op), s.batch_size,
                     s.query_length, s.kv_length, s.num_heads, s.num_kv_heads, s.head_size,
                     to_string(s.dtype), s.causal && s.op != AttentionOp::kDecode ? " causal" : "");
}

std::string name_of(const LinearShape& s) {
  const std::string lengths = s.uniform() ? fmt::format("{}x{}", s.batch_size(), s.lengths.front())
                                          : fmt::format("mixed-{}x{}", s.batch_size(), s.tokens());
  const std::string rows =
      s.rule == Rule::kGdp ? fmt::format(" n{}", s.num_householder) : std::string();
  return fmt::format("{}{} {}/{} {}{} D{} {} state-{} gates-{}", to_string(s.rule),
                     s.decode ? "-decode" : "", s.heads_qk, s.heads_v, lengths, rows, s.head_size,
                     to_string(s.dtype), to_string(s.state_dtype), to_string(s.gates));
}

}  // namespace

bool LinearShape::raw_gates() const {
  if (rule == Rule::kKda) return gates == Gates::kRandom;
  return rule == Rule::kGdn && decode;
}

std::int64_t LinearShape::tokens() const {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0},
                         [](std::int64_t sum, std::int64_t length) {
                           return length > kMost - sum ? kMost : sum + length;
                         });
}

bool LinearShape::uniform() const {
  return std::adjacent_find(lengths.begin(), lengths.end(), std::not_equal_to<>()) == lengths.end();
}

Cost work_of(const Shape& shape) {
  if (const auto* attention = std::get_if<AttentionShape>(&shape)) {
    return attention_work(*attention);
  }
  return linear_work(std::get<LinearShape>(shape));
}

std::string name_of(const Shape& shape) {
  return std::visit([](const auto& s) { return name_of(s); }, shape);
}

std::string_view to_string(AttentionOp op) {
  switch (op) {
    case AttentionOp::kPrefill:
      return "prefill";
    case AttentionOp::kPaged:
      return "paged";
    case AttentionOp::kDecode:
      return "decode";
  }
  return "unknown";
}

std::string_view to_string(Rule rule) {
  switch (rule) {
    case Rule::kGdn:
      return "gdn";
    case Rule::kGdn2:
      return "gdn2";
    case Rule::kGdp:
      return "gdp";
    case Rule::kKda:
      return "kda";
  }
  return "unknown";
}

std::string_view to_string(Gates gates) {
  switch (gates) {
    case Gates::kRandom:
      return "random";
    case Gates::kNone:
      return "none";
    case Gates::kSteep:
      return "steep";
    case Gates::kSlow:
      return "slow";
  }
  return "unknown";
}

}  // namespace tilegate::bench
