// SPDX-License-Identifier: Apache-2.0
// Laws of refusals for the delta-rule family: nothing is silently ignored. An argument or option
// that an op does not take, or that contradicts another, is an error that names it.
#include <limits>

#include "tests/op/calls/small_calls.h"
#include "tests/op/oracle/delta_law.h"

namespace laws {
namespace {

using tilegate::DeltaRule;
using tilegate::DType;

class DeltaRefusals : public DeltaLaw {
 protected:
  static DeltaCall call_of(DeltaRule rule) {
    DeltaShape shape;
    shape.rule = rule;
    shape.lens = {37, 5};
    if (rule == DeltaRule::kGatedDeltaRuleDecode) shape.lens = {2, 2};
    return make_delta(shape);
  }
};

constexpr DeltaRule kGdn = DeltaRule::kGatedDeltaRule;

TEST_P(DeltaRefusals, OptionsOfAnotherOp) {
  DeltaCall call = call_of(kGdn);
  call.options.num_householder = 2;
  expect_invalid(call, {"num_householder", "1", "2"});
  call = call_of(kGdn);
  call.options.use_gate_in_kernel = true;
  expect_invalid(call, {"use_gate_in_kernel", "false", "true"});
  call = call_of(kGdn);
  call.options.beta_is_logit = true;
  expect_invalid(call, {"beta_is_logit", "false", "true"});
  call = call_of(DeltaRule::kKda);
  call.options.lower_bound = -5.0;
  expect_invalid(call, {"lower_bound", "use_gate_in_kernel"});
  call = call_of(DeltaRule::kGatedDeltaProduct);
  call.options.num_householder = 0;
  expect_invalid(call, {"num_householder", "0"});
  call = call_of(DeltaRule::kGatedDeltaRuleDecode);
  call.options.gate_domain = tilegate::GateDomain::kLog;
  expect_invalid(call, {"gate_domain"});
}

TEST_P(DeltaRefusals, ArgumentsOfAnotherOp) {
  DeltaCall call = call_of(kGdn);
  call.w = Tensor::packed(DType::kFloat32, {45, 2, 64}).fill(1.0);
  expect_invalid(call, {"w must"});
  call = call_of(kGdn);
  call.a = Tensor::packed(DType::kFloat32, {45, 2}).fill(1.0);
  expect_invalid(call, {"a must"});
  call = call_of(kGdn);
  call.a_log = Tensor::packed(DType::kFloat32, {2}).fill(1.0);
  expect_invalid(call, {"A_log must"});
  call = call_of(DeltaRule::kKda);
  call.dt_bias = Tensor::packed(DType::kFloat32, {2, 64}).fill(1.0);
  expect_invalid(call, {"dt_bias must", "use_gate_in_kernel"});
  call = call_of(DeltaRule::kGatedDeltaRuleDecode);
  call.g = Tensor::packed(DType::kFloat32, {2, 2, 2}).fill(1.0);
  expect_invalid(call, {"g must"});
  call = call_of(DeltaRule::kGatedDeltaRuleDecode);
  call.cu_seqlens = Tensor::indices({0, 1, 2});
  expect_invalid(call, {"cu_seqlens must"});
}

TEST_P(DeltaRefusals, RequiredArguments) {
  DeltaCall call = call_of(DeltaRule::kKda);
  call.options.use_gate_in_kernel = true;
  expect_invalid(call, {"A_log must"});
  call.a_log = Tensor::packed(DType::kFloat32, {2}).fill(0.0);
  call.g = {};
  expect_invalid(call, {"g must"});
  call = call_of(DeltaRule::kKda);
  call.beta = {};
  call.options.beta_is_logit = true;
  expect_invalid(call, {"beta must"});
  call = call_of(kGdn);
  call.output_state = {};
  expect_invalid(call, {"output_state must", "output_final_state"});
  call = call_of(DeltaRule::kGatedDeltaRuleDecode);
  call.b = {};
  expect_invalid(call, {"b must"});
  call = call_of(kGdn);
  call.o = {};
  expect_invalid(call, {"o must"});
}

TEST_P(DeltaRefusals, Shapes) {
  DeltaCall call = call_of(kGdn);
  call.k = Tensor::packed(DType::kFloat32, {45, 3, 64});
  expect_invalid(call, {"k must", "2", "3"});
  call = call_of(kGdn);
  call.v = Tensor::packed(DType::kFloat32, {45, 3, 64});
  expect_invalid(call, {"v must", "2", "3"});
  call = call_of(kGdn);
  call.g = Tensor::packed(DType::kFloat32, {45, 2, 64});
  expect_invalid(call, {"g must", "64"});
  call = call_of(DeltaRule::kGatedDeltaRule2);
  call.beta = Tensor::packed(DType::kFloat32, {45, 2, 63});
  expect_invalid(call, {"beta must", "64", "63"});
  call = call_of(kGdn);
  call.beta = Tensor::packed(DType::kFloat16, {45, 2});
  expect_invalid(call, {"beta must", "float32", "float16"});
  call = call_of(kGdn);
  call.initial_state = Tensor::packed(DType::kFloat32, {3, 2, 64, 64});
  expect_invalid(call, {"initial_state must", "2", "3"});
  call = call_of(kGdn);
  call.cu_seqlens = Tensor::packed(DType::kFloat32, {3});
  expect_invalid(call, {"cu_seqlens must", "int32", "float32"});
  call = call_of(kGdn);
  call.k = call.k.as(DType::kBFloat16);
  expect_invalid(call, {"k must", "float32", "bfloat16"});
  call = call_of(kGdn);
  call.options.scale = std::numeric_limits<double>::infinity();
  expect_invalid(call, {"scale", "finite", "inf"});
}

TEST_P(DeltaRefusals, StatesThatContradict) {
  DeltaCall call = call_of(kGdn);
  call.use_pool();
  call.initial_state = Tensor::packed(DType::kFloat32, {2, 2, 64, 64});
  expect_invalid(call, {"initial_state must", "state_pool"});
  call = call_of(kGdn);
  call.state_indices = Tensor::indices({0, 1});
  expect_invalid(call, {"state_indices must", "state_pool"});
  call = call_of(kGdn);
  call.use_pool();
  call.state_indices = Tensor::indices({0, 1, 2});
  expect_invalid(call, {"state_indices must", "2", "3"});
  call = call_of(kGdn);
  call.initial_state = {};
  call.has_initial_state = Tensor::bytes({0, 0});
  expect_invalid(call, {"has_initial_state must"});
  call = call_of(kGdn);
  call.options.disable_state_update = true;
  expect_invalid(call, {"output_final_state", "disable_state_update"});
  call = call_of(kGdn);
  call.num_accepted_tokens = Tensor::indices({0, 1});
  expect_invalid(call, {"num_accepted_tokens must", "state_slots"});
  call = call_of(kGdn);
  call.record_k = Tensor::packed(DType::kFloat32, {2, 42, 2, 64});
  expect_invalid(call, {"record"});
  call = call_of(kGdn);
  call.state_checkpoints = Tensor::packed(DType::kFloat32, {4, 2, 64, 64});
  expect_invalid(call, {"state_checkpoints must", "checkpoint_every_n_tokens"});
}

TEST_P(DeltaRefusals, IndexValues) {
  if (!on_cpu_device()) GTEST_SKIP() << "index values are the caller's promise on a GPU";
  const auto offsets = [&](const Dims& values, const std::vector<std::string>& words) {
    DeltaCall call = call_of(kGdn);
    call.cu_seqlens = Tensor::indices(values);
    expect_invalid(call, words);
    DeltaCall pooled = call_of(kGdn);
    pooled.use_pool();
    pooled.cu_seqlens = Tensor::indices(values);
    expect_invalid(pooled, words);  // and the pool keeps its bytes
  };
  offsets({1, 37, 42}, {"cu_seqlens", "0", "1"});
  offsets({0, 42, 37}, {"cu_seqlens", "decrease", "37"});
  offsets({0, 37, 46}, {"cu_seqlens", "45", "46"});
  DeltaCall call = call_of(kGdn);
  call.add_checkpoints(16, tilegate::CheckpointPosition::kAfter, DType::kFloat32);
  call.checkpoint_cu_starts = Tensor::indices({0, 100, 200});
  call.state_checkpoints = call.state_checkpoints.slice(0, 0, 1);
  expect_invalid(call, {"checkpoint_cu_starts"});
}

TEST_P(DeltaRefusals, Commit) {
  CommitCall good;
  good.state_pool = Tensor::packed(DType::kFloat32, {4, 2, 8, 8}).fill(0.0);
  good.state_indices = Tensor::indices({0, 1});
  good.record_k = Tensor::packed(DType::kFloat32, {2, 3, 2, 8}).fill(0.0);
  good.record_d = Tensor::packed(DType::kFloat32, {2, 3, 2, 8}).fill(0.0);
  good.record_decay = Tensor::packed(DType::kFloat32, {2, 3, 2}).fill(0.0);
  good.accepted = Tensor::indices({1, 2});
  if (!run(good)) return;  // rejected by name, or failed: both are on record
  CommitCall call = good;
  call.record_d = Tensor::packed(DType::kFloat32, {2, 3, 2, 7});
  expect_invalid(call, {"record_d must", "8", "7"});
  call = good;
  call.record_k = Tensor::packed(DType::kFloat16, {2, 3, 2, 8});
  expect_invalid(call, {"record_k must", "float32", "float16"});
  call = good;
  call.accepted = {};
  expect_invalid(call, {"accepted must"});
  if (!on_cpu_device()) return;
  call = good;
  call.accepted = Tensor::indices({1, 4});
  expect_invalid(call, {"accepted", "3", "4"});
  call = good;
  call.state_indices = Tensor::indices({4, 1});
  expect_invalid(call, {"state_indices", "4"});
}

LAWS_ON_EVERY_BACKEND(DeltaRefusals);

}  // namespace
}  // namespace laws
