// SPDX-License-Identifier: Apache-2.0
// Delta-rule calls: accepted forms, and every sentence about options, tokens, heads and gates.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "tests/unit/linear/call.h"

namespace tilegate {
namespace {

TEST(LinearNormalise, FillsSizesOfAPackedCall) {
  const LinearProblem p = problem_of(gdn_call());
  EXPECT_EQ(p.dtype, DType::kBFloat16);
  EXPECT_EQ(p.num_seqs, 2);
  EXPECT_EQ(p.tokens, 20);
  EXPECT_EQ(p.uniform_len, -1);
  EXPECT_EQ(p.max_seqlen, 20);
  EXPECT_EQ(p.heads_q, 2);
  EXPECT_EQ(p.heads_k, 2);
  EXPECT_EQ(p.heads_v, 4);
  EXPECT_EQ(p.heads_o, 4);
  EXPECT_EQ(p.dim_k, 8);
  EXPECT_EQ(p.dim_v, 16);
  EXPECT_FLOAT_EQ(p.scale, 0.35355339f);
  EXPECT_FALSE(p.l2norm);
  EXPECT_FALSE(p.store_final);
  EXPECT_EQ(p.q.rank, 4);
  EXPECT_EQ(p.q.shape[0], 1);
  EXPECT_EQ(p.g.rank, 3);
}

TEST(LinearNormalise, ResolvesGatesAndFactorsOfEveryRule) {
  const LinearProblem gdn = problem_of(gdn_call());
  EXPECT_EQ(gdn.gate, GateKind::kLinear);
  EXPECT_FALSE(gdn.gate_per_channel);
  EXPECT_EQ(gdn.erase, EraseKind::kScalar);
  EXPECT_EQ(gdn.write, WriteKind::kErase);

  const LinearProblem gdn2 = problem_of(gdn2_call());
  EXPECT_EQ(gdn2.gate, GateKind::kLog);
  EXPECT_TRUE(gdn2.gate_per_channel);
  EXPECT_EQ(gdn2.erase, EraseKind::kVector);
  EXPECT_EQ(gdn2.write, WriteKind::kVector);

  const LinearProblem gdp = problem_of(gdp_call());
  EXPECT_EQ(gdp.gate, GateKind::kLinear);
  EXPECT_EQ(gdp.householder, 3);
  EXPECT_EQ(gdp.k.shape[1], 60);

  EXPECT_EQ(problem_of(kda_call()).gate, GateKind::kLog);
  EXPECT_EQ(problem_of(kda_raw_call()).gate, GateKind::kSoftplus);
  LinearCall bounded = kda_raw_call();
  bounded.options.lower_bound = -5.0;
  bounded.options.beta_is_logit = true;
  EXPECT_EQ(problem_of(bounded).gate, GateKind::kLowerBound);
  EXPECT_EQ(problem_of(bounded).lower_bound, -5.0f);
  EXPECT_TRUE(problem_of(bounded).beta_is_logit);

  const LinearProblem decode = problem_of(decode_call());
  EXPECT_EQ(decode.gate, GateKind::kSoftplus);
  EXPECT_TRUE(decode.beta_is_logit);
  EXPECT_TRUE(decode.l2norm);
  EXPECT_EQ(decode.g.shape[0], 3);
  EXPECT_EQ(decode.uniform_len, 5);
}

TEST(LinearNormalise, AbsentFactorsAreOneAndAbsentGatesKeep) {
  LinearCall call = gdn2_call();
  call.args.g = {};
  call.args.beta = {};
  call.args.w = {};
  const LinearProblem p = problem_of(call);
  EXPECT_EQ(p.gate, GateKind::kNone);
  EXPECT_TRUE(p.gate_per_channel);
  EXPECT_EQ(p.erase, EraseKind::kOne);
  EXPECT_EQ(p.write, WriteKind::kOne);
  call = gdn_call();
  call.args.beta = {};
  EXPECT_EQ(problem_of(call).erase, EraseKind::kOne);
  EXPECT_EQ(problem_of(call).write, WriteKind::kErase);
}

TEST(LinearNormalise, GateDomainOverridesTheDefaultOfEveryRule) {
  for (auto make : {gdn_call, gdn2_call, gdp_call, kda_call}) {
    LinearCall call = make();
    call.options.gate_domain = GateDomain::kLog;
    EXPECT_EQ(problem_of(call).gate, GateKind::kLog);
    call.options.gate_domain = GateDomain::kLinear;
    EXPECT_EQ(problem_of(call).gate, GateKind::kLinear);
  }
}

TEST(LinearNormalise, LeadingDimensionIsOneOrTheBatch) {
  LinearCall call = gdn_call();
  call.args.q = bf16({1, 20, 2, 8});
  call.args.beta = fp32({1, 20, 4});
  call.args.o = bf16({1, 20, 4, 16});
  EXPECT_EQ(problem_of(call).num_seqs, 2);

  call = gdn_call();
  call.args.cu_seqlens = {};
  EXPECT_EQ(problem_of(call).num_seqs, 1);
  EXPECT_EQ(problem_of(call).uniform_len, 20);

  call.args.q = bf16({5, 4, 2, 8});
  call.args.k = bf16({5, 4, 2, 8});
  call.args.v = bf16({5, 4, 4, 16});
  call.args.g = fp32({5, 4, 4});
  call.args.beta = fp32({5, 4, 4});
  call.args.o = bf16({5, 4, 4, 16});
  EXPECT_EQ(problem_of(call).num_seqs, 5);
  EXPECT_EQ(problem_of(call).uniform_len, 4);
}

TEST(LinearNormalise, AcceptsAllHeadMapsAndNoTokens) {
  for (auto [hq, hk, hv] : {std::array{4, 4, 4}, std::array{4, 2, 2}, std::array{4, 4, 2},
                            std::array{2, 4, 4}, std::array{1, 1, 6}}) {
    LinearCall call = gdn_call();
    const int ho = std::max(hq, hv);
    call.args.q = bf16({20, hq, 8});
    call.args.k = bf16({20, hk, 8});
    call.args.v = bf16({20, hv, 16});
    call.args.g = fp32({20, ho});
    call.args.beta = fp32({20, ho});
    call.args.o = bf16({20, ho, 16});
    EXPECT_EQ(verdict(call), "accepted") << hq << hk << hv;
  }
  LinearCall none = gdn_call();
  none.args.q = none.args.k = bf16({0, 2, 8});
  none.args.v = none.args.o = bf16({0, 4, 16});
  none.args.g = none.args.beta = fp32({0, 4});
  EXPECT_EQ(problem_of(none).tokens, 0);
  EXPECT_EQ(problem_of(none).num_seqs, 2);
}

TEST(LinearNormalise, AcceptsPitchedRowsAndAnyStrideOfOneElement) {
  LinearCall call = gdn_call();
  call.args.q.strides = {100, 8, 1};
  call.args.g.strides = {12, 1};
  call.args.k.strides = {0, 0, 1};
  call.args.o.strides = {64, 1000000, 1};
  EXPECT_EQ(verdict(call), "accepted");
  call = gdn_call();
  for (TensorView* view : {&call.args.k, &call.args.q}) {
    *view = bf16({1, 2, 8});
    view->strides[0] = -7;
  }
  call.args.v = call.args.o = bf16({1, 4, 16});
  call.args.o.strides[0] = 0;
  call.args.g = call.args.beta = fp32({1, 4});
  call.args.g.strides[0] = 12345;
  EXPECT_EQ(verdict(call), "accepted");
}

TEST(LinearNormalise, PerHeadParametersMayHaveTheHeadsOfQ) {
  LinearCall call = kda_raw_call();
  call.args.A_log = fp32({2});
  call.args.dt_bias = bf16({2, 8});
  EXPECT_EQ(verdict(call), "accepted");
  call.args.dt_bias = {};
  EXPECT_EQ(verdict(call), "accepted");
}

TEST(LinearNormalise, RejectsOptionsThatTheOpDoesNotTake) {
  expect_rejections({
      {"use_gate_in_kernel must be false for chunk_gated_delta_rule, got true", gdn_call,
       [](LinearCall& c) { c.options.use_gate_in_kernel = true; }},
      {"lower_bound must be absent without use_gate_in_kernel, got -5", kda_call,
       [](LinearCall& c) { c.options.lower_bound = -5.0; }},
      {"lower_bound must be finite and below 0 in float32, got 0", kda_raw_call,
       [](LinearCall& c) { c.options.lower_bound = 0.0; }},
      {"beta_is_logit must be false for chunk_gated_delta_rule2, got true", gdn2_call,
       [](LinearCall& c) { c.options.beta_is_logit = true; }},
      {"beta must be given with beta_is_logit, got none", kda_call,
       [](LinearCall& c) {
         c.options.beta_is_logit = true;
         c.args.beta = {};
       }},
      {"gate_domain must be the default for gated_delta_rule_decode, got log", decode_call,
       [](LinearCall& c) { c.options.gate_domain = GateDomain::kLog; }},
      {"gate_domain must be the default with use_gate_in_kernel, got linear", kda_raw_call,
       [](LinearCall& c) { c.options.gate_domain = GateDomain::kLinear; }},
      {"scale must be finite in float32, got 1e+300", gdn_call,
       [](LinearCall& c) { c.options.scale = 1e300; }},
      {"num_householder must be 1 for chunk_gated_delta_rule, got 2", gdn_call,
       [](LinearCall& c) { c.options.num_householder = 2; }},
      {"num_householder must be 1..1024, got 0", gdp_call,
       [](LinearCall& c) { c.options.num_householder = 0; }},
      {"max_seqlen must be 0..2147483647, got -1", gdn_call,
       [](LinearCall& c) { c.options.max_seqlen = -1; }},
      {"w must be absent for chunk_gated_delta_rule, got bfloat16 [20, 4, 16]", gdn_call,
       [](LinearCall& c) {
         c.args.w = bf16({20, 4, 16});
       }},
      {"a must be absent for recurrent_kda, got float32 [20, 4]", kda_call,
       [](LinearCall& c) {
         c.args.a = fp32({20, 4});
       }},
      {"b must be absent for chunk_gated_delta_product, got float32 [20, 4]", gdp_call,
       [](LinearCall& c) {
         c.args.b = fp32({20, 4});
       }},
      {"g must be absent for gated_delta_rule_decode, got float32 [3, 5, 4]", decode_call,
       [](LinearCall& c) {
         c.args.g = fp32({3, 5, 4});
       }},
      {"beta must be absent for gated_delta_rule_decode, got float32 [3, 5, 4]", decode_call,
       [](LinearCall& c) {
         c.args.beta = fp32({3, 5, 4});
       }},
      {"w must be absent for gated_delta_rule_decode, got float32 [3, 5, 4]", decode_call,
       [](LinearCall& c) {
         c.args.w = fp32({3, 5, 4});
       }},
      {"cu_seqlens must be absent for gated_delta_rule_decode, got int32 [4]", decode_call,
       [](LinearCall& c) { c.args.cu_seqlens = int32({4}); }},
      {"A_log must be absent without use_gate_in_kernel, got float32 [4]", kda_call,
       [](LinearCall& c) { c.args.A_log = fp32({4}); }},
      {"dt_bias must be absent without use_gate_in_kernel, got float32 [4]", gdn_call,
       [](LinearCall& c) { c.args.dt_bias = fp32({4}); }},
  });
}

TEST(LinearNormalise, RejectsQueriesAndSequencesOfTheWrongForm) {
  expect_rejections({
      {"q must be given, got none", gdn_call, [](LinearCall& c) { c.args.q = {}; }},
      {"q must have rank 3 or 4, got [20, 16]", gdn_call,
       [](LinearCall& c) {
         c.args.q = bf16({20, 16});
       }},
      {"q must be float32, float16 or bfloat16, got int32", gdn_call,
       [](LinearCall& c) {
         c.args.q = int32({20, 2, 8});
       }},
      {"q must have innermost stride 1, got 2", gdn_call,
       [](LinearCall& c) { c.args.q.strides[2] = 2; }},
      {"q must have at least one head and head_dim 1, got [20, 0, 8]", gdn_call,
       [](LinearCall& c) {
         c.args.q = bf16({20, 0, 8});
       }},
      {"q must have at most 16 tokens a sequence for gated_delta_rule_decode, got [3, 17, 2, 8]",
       decode_call,
       [](LinearCall& c) {
         c.args.q = bf16({3, 17, 2, 8});
       }},
      {"cu_seqlens must have rank 1, got [3, 1]", gdn_call,
       [](LinearCall& c) {
         c.args.cu_seqlens = int32({3, 1});
       }},
      {"cu_seqlens must be int32 or int64, got float32", gdn_call,
       [](LinearCall& c) { c.args.cu_seqlens = fp32({3}); }},
      {"cu_seqlens must have innermost stride 1, got 2", gdn_call,
       [](LinearCall& c) { c.args.cu_seqlens.strides[0] = 2; }},
      {"cu_seqlens must have at least 1 entry, got [0]", gdn_call,
       [](LinearCall& c) { c.args.cu_seqlens = int32({0}); }},
      {"q must have a leading dimension of 1 with cu_seqlens, got [2, 10, 2, 8]", gdn_call,
       [](LinearCall& c) {
         c.args.q = bf16({2, 10, 2, 8});
       }},
      {"max_seqlen must be at least the 5 tokens of a sequence, got 4", decode_call,
       [](LinearCall& c) { c.options.max_seqlen = 4; }},
  });
}

TEST(LinearNormalise, RejectsKeysValuesAndOutputsOfTheWrongForm) {
  expect_rejections({
      {"k must be given, got none", gdn_call, [](LinearCall& c) { c.args.k = {}; }},
      {"v must be bfloat16, got float16", gdn_call,
       [](LinearCall& c) {
         c.args.v = view_of(DType::kFloat16, {20, 4, 16});
       }},
      {"v must have a number of heads that divides or is a multiple of q's 2, got 3", gdn_call,
       [](LinearCall& c) {
         c.args.v = bf16({20, 3, 16});
       }},
      {"k must have the heads of q (2) or of v (4), got 1", gdn_call,
       [](LinearCall& c) {
         c.args.k = bf16({20, 1, 8});
       }},
      {"v must have a head_dim of at least 1, got 0", gdn_call,
       [](LinearCall& c) {
         c.args.v = bf16({20, 4, 0});
       }},
      {"k must have shape [1, 20, 2, 8], the leading 1 optional, got [20, 2, 16]", gdn_call,
       [](LinearCall& c) {
         c.args.k = bf16({20, 2, 16});
       }},
      {"k must have shape [1, 60, 2, 8], the leading 1 optional, got [20, 2, 8]", gdp_call,
       [](LinearCall& c) {
         c.args.k = bf16({20, 2, 8});
       }},
      {"v must have shape [3, 5, 4, 16], got [15, 4, 16]", decode_call,
       [](LinearCall& c) {
         c.args.v = bf16({15, 4, 16});
       }},
      {"v must have innermost stride 1, got 3", gdn_call,
       [](LinearCall& c) { c.args.v.strides[2] = 3; }},
      {"o must be given, got none", gdn_call, [](LinearCall& c) { c.args.o = {}; }},
      {"o must have shape [1, 20, 4, 16], the leading 1 optional, got [20, 2, 16]", gdn_call,
       [](LinearCall& c) {
         c.args.o = bf16({20, 2, 16});
       }},
      {"o must be bfloat16, got float32", gdn_call,
       [](LinearCall& c) {
         c.args.o = fp32({20, 4, 16});
       }},
      {"o must have positive strides, got 0 in dimension 0", gdn_call,
       [](LinearCall& c) { c.args.o.strides[0] = 0; }},
      {"o must not overlap itself: stride of dimension 0 must be at least 64, got 63", gdn_call,
       [](LinearCall& c) { c.args.o.strides[0] = 63; }},
  });
}

TEST(LinearNormalise, RejectsGatesOfTheWrongForm) {
  expect_rejections({
      {"g must have shape [1, 20, 4], the leading 1 optional, got [20, 2]", gdn_call,
       [](LinearCall& c) {
         c.args.g = fp32({20, 2});
       }},
      {"g must have rank 3 or 4, got [20, 4]", kda_call,
       [](LinearCall& c) {
         c.args.g = fp32({20, 4});
       }},
      {"g must be float32, float16 or bfloat16, got int32", gdn_call,
       [](LinearCall& c) {
         c.args.g = int32({20, 4});
       }},
      {"g must have innermost stride 1, got 20", gdn_call,
       [](LinearCall& c) {
         c.args.g.strides = {1, 20};
       }},
      {"g must be given, got none", kda_raw_call, [](LinearCall& c) { c.args.g = {}; }},
      {"beta must have shape [1, 60, 4], the leading 1 optional, got [20, 4]", gdp_call,
       [](LinearCall& c) {
         c.args.beta = fp32({20, 4});
       }},
      {"beta must have rank 3 or 4, got [20, 4]", gdn2_call,
       [](LinearCall& c) {
         c.args.beta = fp32({20, 4});
       }},
      {"beta must be float32 or q's bfloat16, got float16", gdn_call,
       [](LinearCall& c) {
         c.args.beta = view_of(DType::kFloat16, {20, 4});
       }},
      {"w must have shape [1, 20, 4, 16], the leading 1 optional, got [20, 4, 8]", gdn2_call,
       [](LinearCall& c) {
         c.args.w = bf16({20, 4, 8});
       }},
      {"w must be float32 or q's bfloat16, got float16", gdn2_call,
       [](LinearCall& c) {
         c.args.w = view_of(DType::kFloat16, {20, 4, 16});
       }},
      {"a must be given, got none", decode_call, [](LinearCall& c) { c.args.a = {}; }},
      {"b must be float32 or q's bfloat16, got float16", decode_call,
       [](LinearCall& c) {
         c.args.b = view_of(DType::kFloat16, {3, 5, 4});
       }},
      {"A_log must be given, got none", kda_raw_call, [](LinearCall& c) { c.args.A_log = {}; }},
      {"A_log must have shape [4] or [2], got [3]", kda_raw_call,
       [](LinearCall& c) { c.args.A_log = fp32({3}); }},
      {"A_log must have shape [4], got [2]", decode_call,
       [](LinearCall& c) { c.args.A_log = fp32({2}); }},
      {"A_log must be float32, got bfloat16", decode_call,
       [](LinearCall& c) { c.args.A_log = bf16({4}); }},
      {"dt_bias must be given, got none", decode_call, [](LinearCall& c) { c.args.dt_bias = {}; }},
      {"dt_bias must have rank 2, got [32]", kda_raw_call,
       [](LinearCall& c) { c.args.dt_bias = fp32({32}); }},
      {"dt_bias must have shape [4, 8] or [2, 8], got [4, 16]", kda_raw_call,
       [](LinearCall& c) {
         c.args.dt_bias = fp32({4, 16});
       }},
      {"dt_bias must be float32 or bfloat16, got float16", decode_call,
       [](LinearCall& c) { c.args.dt_bias = view_of(DType::kFloat16, {4}); }},
  });
}

}  // namespace
}  // namespace tilegate
