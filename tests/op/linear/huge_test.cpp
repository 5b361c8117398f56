// SPDX-License-Identifier: Apache-2.0
// Law: offsets are 64-bit. State slots, state heads and token rows past 2^31 and 2^32 elements give
// the bits of packed tensors.
#include "tests/op/oracle/delta_law.h"
#include "tests/op/tensor/sparse.h"

namespace laws {
namespace {

using tilegate::DeltaRule;
using tilegate::DType;

class HugeStates : public DeltaLaw {
 protected:
  void SetUp() override {
    if (!on_cpu_device()) GTEST_SKIP() << "a sparse mapping is host memory";
  }
  static DeltaCall call_of(DeltaRule rule) {
    DeltaShape shape;
    shape.rule = rule;
    shape.lens = {2, 66};
    shape.dim_k = shape.dim_v = key_dim(16);
    shape.householder = rule == DeltaRule::kGatedDeltaProduct ? 2 : 1;
    return make_delta(shape);
  }
};

TEST_P(HugeStates, PoolSlotsAndHeadsPast32Bits) {
  for (const DeltaRule rule : kChunkRules) {
    for (const int dim : {0, 1}) {
      for (const std::int64_t stride : {kPast31, kPast32}) {
        DeltaCall packed = call_of(rule);
        packed.use_pool(1);
        DeltaCall huge = packed;
        huge.reset_outputs();
        huge.state_pool = sparse_copy(packed.state_pool, dim, stride);
        if (!huge.state_pool.present()) GTEST_SKIP() << "mmap refused";
        if (!run(packed) || !run(huge)) continue;
        expect_same_bits(huge.o, packed.o, "o of a huge pool");
        expect_same_bits(huge.state_pool, packed.state_pool, "a huge pool");
      }
    }
  }
}

TEST_P(HugeStates, TokenRowsPast32Bits) {
  for (const DeltaRule rule : kChunkRules) {
    DeltaShape shape;
    shape.rule = rule;
    shape.lens = {3};
    shape.spare_rows = 0;
    shape.dim_k = shape.dim_v = key_dim(16);
    DeltaCall packed = make_delta(shape);
    DeltaCall huge = packed;
    huge.reset_outputs();
    for (Tensor* t : {&huge.q, &huge.k, &huge.v, &huge.g, &huge.beta}) {
      *t = sparse_copy(*t, 0, kPast31);
      if (!t->present()) GTEST_SKIP() << "mmap refused";
    }
    huge.o = sparse_copy(packed.o, 0, kPast32);
    if (!huge.o.present()) GTEST_SKIP() << "mmap refused";
    if (!run(packed) || !run(huge)) continue;
    expect_same_bits(huge.o, packed.o, "o of huge token strides");
    expect_same_bits(huge.output_state, packed.output_state, "state of huge token strides");
  }
}

TEST_P(HugeStates, DecodePoolPast32Bits) {
  DeltaShape shape;
  shape.rule = DeltaRule::kGatedDeltaRuleDecode;
  shape.lens = {2, 2};
  DeltaCall packed = make_delta(shape);
  packed.use_pool(1);
  DeltaCall huge = packed;
  huge.reset_outputs();
  huge.state_pool = sparse_copy(packed.state_pool, 0, kPast32);
  if (!huge.state_pool.present()) GTEST_SKIP() << "mmap refused";
  if (!run(packed) || !run(huge)) return;
  expect_same_bits(huge.o, packed.o, "o of a huge pool");
  expect_same_bits(huge.state_pool, packed.state_pool, "a huge pool");
}

LAWS_ON_EVERY_BACKEND(HugeStates);

}  // namespace
}  // namespace laws
