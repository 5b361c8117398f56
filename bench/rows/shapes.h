// SPDX-License-Identifier: Apache-2.0
// What a benchmark row measures: the shape of one call, its name, and the work it cannot avoid.
// FLOPs count the multiplications and additions of the formula; bytes count every input read once
// and every output written once. Both are the same for every backend and peer of a row.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tilegate/tensor.h"

namespace tilegate::bench {

enum class AttentionOp : std::uint8_t { kPrefill, kPaged, kDecode };

// `batch_size` requests of `query_length` rows over `kv_length` keys; decode is causal always.
struct AttentionShape {
  AttentionOp op = AttentionOp::kPrefill;
  std::int64_t batch_size = 1;
  std::int64_t query_length = 1;
  std::int64_t kv_length = 1;
  std::int64_t num_heads = 1;
  std::int64_t num_kv_heads = 1;
  std::int64_t head_size = 128;
  std::int64_t page_size = 16;  // paged prefill and decode
  DType dtype = DType::kBFloat16;
  bool causal = false;
};

enum class Rule : std::uint8_t { kGdn, kGdn2, kGdp, kKda };

// How fast the state forgets. n is a standard normal draw, u a uniform one.
enum class Gates : std::uint8_t {
  kRandom,  // GDN, GDP, GDN-2: as slow; KDA: raw gates, A_log = log(1 + 1.7 u), lower bound -5
  kNone,    // alpha = 1
  kSteep,   // ln alpha = -5 u
  kSlow,    // alpha = sigmoid(n + 3)
};

struct LinearShape {
  Rule rule = Rule::kGdn;
  bool decode = false;
  std::vector<std::int64_t> lengths;  // tokens of each sequence
  std::int64_t heads_qk = 1;
  std::int64_t heads_v = 1;
  std::int64_t head_size = 128;
  std::int64_t num_householder = 1;  // GDP
  DType dtype = DType::kBFloat16;
  DType state_dtype = DType::kFloat32;
  Gates gates = Gates::kRandom;

  std::int64_t batch_size() const { return static_cast<std::int64_t>(lengths.size()); }
  std::int64_t tokens() const;
  bool uniform() const;
  bool raw_gates() const;  // the kernel activates them
};

using Shape = std::variant<AttentionShape, LinearShape>;

// What a set knows of a row from the table of measured peers: milliseconds, 0 where unknown.
struct Row {
  Shape shape;
  double goal_ms = 0.0;
  double goal_peer_ms = 0.0;  // the best peer when the goal was set: goals are ratios to it
};

struct Cost {
  double flops = 0.0;
  double bytes = 0.0;
};

Cost work_of(const Shape& shape);

// "prefill B4 Q128 KV4096 12/4 D128 bfloat16", without spaces inside a word.
std::string name_of(const Shape& shape);

std::string_view to_string(AttentionOp op);
std::string_view to_string(Rule rule);
std::string_view to_string(Gates gates);

}  // namespace tilegate::bench
