// SPDX-License-Identifier: Apache-2.0
// Delta-rule calls that are right, for tests to spoil: 2 sequences in 20 packed tokens, heads
// q 2, k 2, v 4 (so 4 state heads), K = 8, V = 16. Views carry no memory unless a test gives some.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "problem/linear_normalise.h"

namespace tilegate {

struct LinearCall {
  DeltaRule rule = DeltaRule::kGatedDeltaRule;
  DeltaRuleArgs args;
  DeltaRuleOptions options;
};

inline TensorView view_of(DType dtype, std::initializer_list<std::int64_t> shape) {
  return TensorView::packed(nullptr, dtype, shape);
}
inline TensorView bf16(std::initializer_list<std::int64_t> shape) {
  return view_of(DType::kBFloat16, shape);
}
inline TensorView fp32(std::initializer_list<std::int64_t> shape) {
  return view_of(DType::kFloat32, shape);
}
inline TensorView int32(std::initializer_list<std::int64_t> shape) {
  return view_of(DType::kInt32, shape);
}

inline LinearCall gdn_call() {
  LinearCall call;
  call.args.q = bf16({20, 2, 8});
  call.args.k = bf16({20, 2, 8});
  call.args.v = bf16({20, 4, 16});
  call.args.g = fp32({20, 4});
  call.args.beta = fp32({20, 4});
  call.args.o = bf16({20, 4, 16});
  call.args.cu_seqlens = int32({3});
  return call;
}

inline LinearCall gdn2_call() {
  LinearCall call = gdn_call();
  call.rule = DeltaRule::kGatedDeltaRule2;
  call.args.g = fp32({20, 4, 8});
  call.args.beta = bf16({20, 4, 8});
  call.args.w = bf16({20, 4, 16});
  return call;
}

inline LinearCall gdp_call() {
  LinearCall call = gdn_call();
  call.rule = DeltaRule::kGatedDeltaProduct;
  call.options.num_householder = 3;
  call.args.k = bf16({60, 2, 8});
  call.args.v = bf16({60, 4, 16});
  call.args.beta = fp32({60, 4});
  return call;
}

inline LinearCall kda_call() {
  LinearCall call = gdn_call();
  call.rule = DeltaRule::kKda;
  call.args.g = fp32({20, 4, 8});
  return call;
}

inline LinearCall kda_raw_call() {
  LinearCall call = kda_call();
  call.options.use_gate_in_kernel = true;
  call.args.A_log = fp32({4});
  call.args.dt_bias = fp32({4, 8});
  return call;
}

// 3 sequences of 5 tokens.
inline LinearCall decode_call() {
  LinearCall call;
  call.rule = DeltaRule::kGatedDeltaRuleDecode;
  call.args.q = bf16({3, 5, 2, 8});
  call.args.k = bf16({3, 5, 2, 8});
  call.args.v = bf16({3, 5, 4, 16});
  call.args.a = bf16({3, 5, 4});
  call.args.b = bf16({3, 5, 4});
  call.args.A_log = fp32({4});
  call.args.dt_bias = fp32({4});
  call.args.o = bf16({3, 5, 4, 16});
  return call;
}

// gdn_call() on a pool of 7 slots.
inline LinearCall pool_call() {
  LinearCall call = gdn_call();
  call.args.state_pool = bf16({7, 4, 16, 8});
  call.args.state_indices = int32({2});
  return call;
}

// pool_call() with a slot a token and counts of the previous step; at most 6 tokens a sequence.
inline LinearCall speculative_call() {
  LinearCall call = pool_call();
  call.options.max_seqlen = 6;
  call.args.state_slots = int32({2, 6});
  call.args.num_accepted_tokens = int32({2});
  call.args.record_k = fp32({2, 6, 2, 8});
  call.args.record_d = fp32({2, 6, 4, 16});
  call.args.record_decay = fp32({2, 6, 4});
  return call;
}

inline LinearCall checkpoint_call() {
  LinearCall call = gdn_call();
  call.options.checkpoint_every_n_tokens = 16;
  call.args.state_checkpoints = bf16({5, 4, 16, 8});
  call.args.checkpoint_cu_starts = int32({3});
  return call;
}

// The sentence of the rejection, or "accepted".
inline std::string verdict(const LinearCall& call) {
  const Result<Operation> result = normalise_linear(call.rule, call.args, call.options);
  return result.ok() ? "accepted" : result.status().to_string();
}

// Valid only for accepted calls.
inline LinearProblem problem_of(const LinearCall& call) {
  return std::get<LinearProblem>(*normalise_linear(call.rule, call.args, call.options));
}

struct Rejection {
  std::string sentence;
  LinearCall (*make)();
  std::function<void(LinearCall&)> spoil;
};

// Every row's call is accepted until it is spoilt, then rejected with exactly its sentence.
inline void expect_rejections(const std::vector<Rejection>& table) {
  for (const Rejection& row : table) {
    LinearCall call = row.make();
    ASSERT_EQ(verdict(call), "accepted") << row.sentence;
    row.spoil(call);
    EXPECT_EQ(verdict(call), "invalid_argument: " + row.sentence);
  }
}

}  // namespace tilegate
