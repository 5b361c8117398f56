// SPDX-License-Identifier: Apache-2.0
// Laws of gated_delta_rule_decode: it is the recurrence with its raw gates, T = 1 .. 16, V-major
// states; several tokens in one call equal the same tokens one by one.
#include "tests/op/oracle/delta_law.h"

namespace laws {
namespace {

using tilegate::DeltaRule;
using tilegate::DType;

class Decode : public DeltaLaw {
 protected:
  static DeltaShape shape_of(std::int64_t batch, std::int64_t tokens) {
    DeltaShape shape;
    shape.rule = DeltaRule::kGatedDeltaRuleDecode;
    shape.lens = Dims(static_cast<std::size_t>(batch), tokens);
    return shape;
  }
};

TEST_P(Decode, EveryDtypeAndTokenCount) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    for (const DType state : {DType::kFloat32, DType::kBFloat16}) {
      for (const std::int64_t tokens : {1, 2, 3, 4, 8, 16}) {
        DeltaShape shape = shape_of(3, tokens);
        shape.dtype = dtype;
        shape.state_dtype = state;
        DeltaCall call = make_delta(shape);
        expect_oracle(call, "own states");
        call.use_pool();
        expect_oracle(call, "pool");
      }
    }
  }
}

TEST_P(Decode, HeadMapsAndDims) {
  struct Heads {
    std::int64_t q, k, v;
  };
  for (const Heads heads : {Heads{1, 1, 1}, {2, 2, 8}, {4, 1, 1}, {2, 4, 4}}) {
    for (const std::int64_t dim : {16, 128}) {
      DeltaShape shape = shape_of(2, 2);
      shape.heads_q = heads.q;
      shape.heads_k = heads.k;
      shape.heads_v = heads.v;
      shape.dim_k = dim;
      shape.dim_v = dim;
      expect_oracle(make_delta(shape));
    }
  }
}

// K != V and no symmetry: a transposed state cannot pass.
TEST_P(Decode, StatesAreVMajor) {
  DeltaShape shape = shape_of(2, 1);
  shape.dim_k = 32;
  shape.dim_v = 64;
  DeltaCall call = make_delta(shape);
  call.use_pool();
  expect_oracle(call);
}

TEST_P(Decode, L2NormIsOnUnlessSwitchedOff) {
  DeltaCall call = make_delta(shape_of(2, 3));
  Random random(71);
  random.normals(call.k, 2.0);
  expect_oracle(call, "default");
  call.options.use_qk_l2norm = true;
  expect_oracle(call, "on");
  random.unit_rows(call.k);
  call.options.use_qk_l2norm = false;
  expect_oracle(call, "off");
}

TEST_P(Decode, GatesInOtherDtypesAndExtremes) {
  DeltaShape shape = shape_of(2, 4);
  shape.dtype = DType::kBFloat16;
  DeltaCall call = make_delta(shape);
  call.a = call.a.as(DType::kFloat32);
  call.b = call.b.as(DType::kFloat32);
  call.dt_bias = call.dt_bias.as(DType::kBFloat16);
  expect_oracle(call, "fp32 a and b");
  call.a_log.set(-6.0, 0);
  call.a.select(0, 0).fill(120.0);   // softplus(x) = x; exp(120) is no float
  call.a.select(0, 1).fill(-100.0);  // no decay
  call.b.select(0, 0).fill(-100.0);
  call.b.select(0, 1).fill(100.0);
  expect_oracle(call, "extreme gates");
}

TEST_P(Decode, SeveralTokensEqualOneByOne) {
  for (const DType state : {DType::kFloat32, DType::kBFloat16}) {
    DeltaShape shape = shape_of(2, 5);
    shape.state_dtype = state;
    DeltaCall together = make_delta(shape);
    Tensor carried = together.initial_state;
    Tensor o = Tensor::packed(DType::kFloat32, together.o.shape());
    if (!run(together)) continue;
    for (std::int64_t t = 0; t < 5; ++t) {
      DeltaCall one = together;
      one.lens = {1, 1};
      for (Tensor* x : {&one.q, &one.k, &one.v, &one.a, &one.b}) *x = x->slice(1, t, t + 1);
      one.initial_state = carried;
      one.output_state = Tensor::packed(state, carried.shape());
      one.o = Tensor::packed(DType::kFloat32, {2, 1, 2, 64});
      if (!run(one)) return;
      o.slice(1, t, t + 1).copy_from(one.o);
      carried = one.output_state;
    }
    Tolerance close = tolerance(Quantity::kDelta, state);
    if (state == DType::kBFloat16) close = {2 * close.rel_rms, 2 * close.max_rel};
    expect_close(o, together.o, close, "o one by one");
    expect_close(carried, together.output_state, close, "state one by one");
  }
}

TEST_P(Decode, NegativeSlots) {
  DeltaCall call = make_delta(shape_of(3, 2));
  call.use_pool();
  call.state_indices.set(-1, 1);
  const Tensor before = call.state_pool.clone();
  const DeltaAnswer expected = delta_oracle(call);
  if (!run(call)) return;
  expect_all(call.o.select(0, 1), 0.0, "o of a skipped sequence");
  expect_close(call.o_of(2), expected.o_of(call, 2), tolerance(Quantity::kDelta, DType::kFloat32),
               "o beside a skipped sequence");
  for (std::int64_t slot = 0; slot < before.dim(0); ++slot) {
    if (slot == call.state_indices.at(0) || slot == call.state_indices.at(2)) continue;
    expect_same_bits(call.state_pool.select(0, slot), before.select(0, slot), "slot of nobody");
  }
}

TEST_P(Decode, ASequenceAloneEqualsItselfInABatch) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    DeltaShape shape = shape_of(5, 3);
    shape.dtype = dtype;
    DeltaCall batch = make_delta(shape);
    batch.options.batch_invariant = true;
    if (!run(batch)) continue;
    for (std::int64_t i = 0; i < 5; ++i) {
      DeltaCall single = batch;
      single.lens = {3};
      for (Tensor* t :
           {&single.q, &single.k, &single.v, &single.a, &single.b, &single.initial_state}) {
        *t = t->slice(0, i, i + 1);
      }
      single.output_state = Tensor::packed(DType::kFloat32, {1, 2, 64, 64});
      single.o = Tensor::packed(dtype, {1, 3, 2, 64});
      if (!run(single)) continue;
      expect_same_bits(single.o, batch.o.slice(0, i, i + 1), "o alone");
      expect_same_bits(single.output_state, batch.output_state.slice(0, i, i + 1), "state alone");
    }
  }
}

TEST_P(Decode, SequencesInAnotherOrder) {
  DeltaShape shape = shape_of(4, 3);
  shape.dtype = DType::kBFloat16;
  DeltaCall call = make_delta(shape);
  DeltaCall other = make_delta(shape);
  const Dims order = {2, 3, 0, 1};
  for (auto [from, to] : {std::pair{&call.q, &other.q},
                          {&call.k, &other.k},
                          {&call.v, &other.v},
                          {&call.a, &other.a},
                          {&call.b, &other.b},
                          {&call.initial_state, &other.initial_state}}) {
    for (std::int64_t i = 0; i < 4; ++i) {
      to->select(0, i).copy_from(from->select(0, order[static_cast<std::size_t>(i)]));
    }
  }
  if (!run(call) || !run(other)) return;
  for (std::int64_t i = 0; i < 4; ++i) {
    const std::int64_t from = order[static_cast<std::size_t>(i)];
    expect_same_bits(other.o.select(0, i), call.o.select(0, from), "o moved");
    expect_same_bits(other.output_state.select(0, i), call.output_state.select(0, from),
                     "state moved");
  }
}

TEST_P(Decode, NoSequences) {
  DeltaShape shape = shape_of(0, 1);
  DeltaCall call = make_delta(shape);
  run(call);
}

TEST_P(Decode, KdaOneTokenSequences) {
  DeltaShape shape;
  shape.rule = DeltaRule::kKda;
  shape.lens = Dims(17, 1);
  shape.dtype = DType::kBFloat16;
  DeltaCall call = make_delta(shape);
  call.use_pool();
  expect_oracle(call);
}

LAWS_ON_EVERY_BACKEND(Decode);

}  // namespace
}  // namespace laws
