// SPDX-License-Identifier: Apache-2.0
// Law: strides are honoured in every tensor of a delta-rule call; the same values in another layout
// give the same bits. Overlapping or negative strides of what is written are rejected by name.
#include "tests/op/oracle/delta_law.h"

namespace laws {
namespace {

using tilegate::DeltaRule;
using tilegate::DType;

class DeltaStrides : public DeltaLaw {
 protected:
  static DeltaCall call_of(DeltaRule rule, DType dtype = DType::kFloat32) {
    DeltaShape shape;
    shape.rule = rule;
    shape.lens = lengths({70, 3});
    shape.dim_k = shape.dim_v = 32;
    shape.dtype = dtype;
    shape.householder = rule == DeltaRule::kGatedDeltaProduct ? 2 : 1;
    return make_delta(shape);
  }
  void expect_same(DeltaCall packed, DeltaCall strided, const std::string& note) {
    if (!run(packed) || !run(strided)) return;
    expect_same_bits(strided.o, packed.o, "o of " + note);
    if (packed.output_state.present()) {
      expect_same_bits(strided.output_state, packed.output_state, "state of " + note);
    }
    if (packed.state_pool.present()) {
      expect_same_bits(strided.state_pool, packed.state_pool, "pool of " + note);
    }
  }
  void expect_invalid(DeltaCall call, const std::string& argument) {
    const tilegate::Status status = attempt(call);
    EXPECT_EQ(status.code(), tilegate::StatusCode::kInvalidArgument) << status.to_string();
    EXPECT_NE(status.message().find(argument), std::string::npos) << status.message();
  }
  // A pitch of `gap` more elements in every dimension but the innermost.
  static Tensor pitched(const Tensor& t, std::int64_t gap) {
    if (!t.present()) return {};
    Dims strides(t.shape().size());
    std::int64_t stride = 1;
    for (std::size_t d = strides.size(); d-- > 0;) {
      strides[d] = stride;
      stride = stride * t.shape()[d] + gap;
    }
    return t.with_strides(strides);
  }
};

TEST_P(DeltaStrides, GapsInEveryInput) {
  for (const DeltaRule rule : kChunkRules) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      const DeltaCall packed = call_of(rule, dtype);
      DeltaCall call = packed;
      call.reset_outputs();
      for (Tensor* t :
           {&call.q, &call.k, &call.v, &call.g, &call.beta, &call.w, &call.initial_state}) {
        *t = pitched(*t, 7);
      }
      call.o = pitched(call.o, 5);
      call.output_state = pitched(call.output_state, 3);
      expect_same(packed, call, "gaps");
    }
  }
}

TEST_P(DeltaStrides, PackedQkv) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    const DeltaCall packed = call_of(DeltaRule::kGatedDeltaRule, dtype);
    DeltaCall call = packed;
    call.reset_outputs();
    const Tensor qkv = Tensor::packed(dtype, {packed.q.dim(0), 6, 32});
    call.q = qkv.slice(1, 0, 2);
    call.k = qkv.slice(1, 2, 4);
    call.v = qkv.slice(1, 4, 6);
    call.q.copy_from(packed.q);
    call.k.copy_from(packed.k);
    call.v.copy_from(packed.v);
    expect_same(packed, call, "packed qkv");
  }
}

// g and beta as two columns of one projection, rows pitched.
TEST_P(DeltaStrides, RowPitchedGates) {
  const DeltaCall packed = call_of(DeltaRule::kGatedDeltaRule);
  DeltaCall call = packed;
  call.reset_outputs();
  const Tensor both = Tensor::packed(DType::kFloat32, {packed.g.dim(0), 64});
  call.g = both.slice(1, 8, 10);
  call.beta = both.slice(1, 40, 42);
  call.g.copy_from(packed.g);
  call.beta.copy_from(packed.beta);
  expect_same(packed, call, "row-pitched gates");
}

// Heads outermost in memory, states with heads before slots.
TEST_P(DeltaStrides, PermutedDims) {
  for (const DeltaRule rule : kChunkRules) {
    const DeltaCall packed = call_of(rule);
    DeltaCall call = packed;
    call.reset_outputs();
    const auto heads_first = [](const Tensor& t) {
      return t.present() ? t.permuted({1, 0, 2}).clone().permuted({1, 0, 2}) : Tensor{};
    };
    for (Tensor* t : {&call.q, &call.k, &call.v}) *t = heads_first(*t);
    if (call.g.shape().size() == 3) call.g = heads_first(call.g);
    call.o = heads_first(call.o);
    call.initial_state = call.initial_state.permuted({1, 0, 2, 3}).clone().permuted({1, 0, 2, 3});
    call.output_state = call.output_state.permuted({1, 0, 2, 3}).clone().permuted({1, 0, 2, 3});
    expect_same(packed, call, "permuted dims");
  }
}

TEST_P(DeltaStrides, ExpandedInputs) {
  for (const DeltaRule rule : kChunkRules) {
    DeltaCall packed = call_of(rule);
    DeltaCall call = packed;
    call.reset_outputs();
    const auto expand = [](const Tensor& t, std::size_t dim) {
      Dims strides = t.strides();
      strides[dim] = 0;
      return t.reshaped(t.shape(), strides);
    };
    call.q = expand(packed.q, 1);
    call.v = expand(packed.v, 0);
    call.initial_state = expand(expand(packed.initial_state, 0), 1);
    packed.q = call.q.clone();
    packed.v = call.v.clone();
    packed.initial_state = call.initial_state.clone();
    expect_same(packed, call, "expanded inputs");
  }
}

TEST_P(DeltaStrides, SizeOneDimsOfAnyStride) {
  for (const DeltaRule rule : kChunkRules) {
    DeltaShape shape;
    shape.rule = rule;
    shape.lens = {1};
    shape.heads_q = shape.heads_k = shape.heads_v = 1;
    shape.spare_rows = 0;
    const DeltaCall packed = make_delta(shape);
    for (const std::int64_t odd : {std::int64_t{0}, std::int64_t{-3}, std::int64_t{1} << 60}) {
      DeltaCall call = packed;
      call.reset_outputs();
      for (Tensor* t : {&call.q, &call.k, &call.v, &call.o}) {
        *t = t->reshaped(t->shape(), {odd, odd, 1});
      }
      for (Tensor* t : {&call.initial_state, &call.output_state}) {
        *t = t->reshaped(t->shape(), {odd, odd, 64, 1});
      }
      expect_same(packed, call, "size-1 stride " + std::to_string(odd));
    }
  }
}

TEST_P(DeltaStrides, PoolSlotsAndHeadsWithGaps) {
  for (const DeltaRule rule : kChunkRules) {
    for (const DType state : {DType::kFloat32, DType::kBFloat16}) {
      DeltaShape shape;
      shape.rule = rule;
      shape.dim_k = shape.dim_v = 32;
      shape.state_dtype = state;
      DeltaCall packed = make_delta(shape);
      packed.use_pool();
      DeltaCall call = packed;
      call.reset_outputs();
      // Another cache's data lives between the slots: [slot][conv state 100][heads][V, K].
      call.state_pool = packed.state_pool.with_strides({100 + 2 * 1100, 1100, 34, 1});
      expect_same(packed, call, "a pool with gaps");
    }
  }
}

TEST_P(DeltaStrides, DecodeTensors) {
  DeltaShape shape;
  shape.rule = DeltaRule::kGatedDeltaRuleDecode;
  shape.lens = {3, 3};
  DeltaCall packed = make_delta(shape);
  packed.use_pool();
  DeltaCall call = packed;
  call.reset_outputs();
  call.state_pool = pitched(packed.state_pool, 9);
  for (Tensor* t : {&call.q, &call.k, &call.v, &call.a, &call.b}) *t = pitched(*t, 6);
  call.o = pitched(call.o, 4);
  expect_same(packed, call, "strided decode");
}

TEST_P(DeltaStrides, OverlappingOrNegativeOutputsAreRejected) {
  const DeltaCall packed = call_of(DeltaRule::kGatedDeltaRule);
  for (const Dims& strides :
       {Dims{64, 0, 1}, Dims{32, 32, 1}, Dims{0, 32, 1}, Dims{64, -32, 1}, Dims{64, 32, 2}}) {
    DeltaCall call = packed;
    call.o = packed.o.reshaped(packed.o.shape(), strides);
    expect_invalid(call, "o must");
  }
  for (const Dims& strides : {Dims{0, 1024, 32, 1}, Dims{2048, 512, 32, 1}, Dims{2048, 1024, 0, 1},
                              Dims{-2048, 1024, 32, 1}}) {
    DeltaCall call = packed;
    call.output_state = packed.output_state.reshaped(packed.output_state.shape(), strides);
    expect_invalid(call, "output_state must");
    DeltaCall pooled = packed;
    pooled.use_pool(0);
    pooled.state_pool = pooled.state_pool.reshaped(pooled.state_pool.shape(), strides);
    expect_invalid(pooled, "state_pool must");
  }
}

LAWS_ON_EVERY_BACKEND(DeltaStrides);

}  // namespace
}  // namespace laws
