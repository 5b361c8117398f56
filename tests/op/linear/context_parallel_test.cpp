// SPDX-License-Identifier: Apache-2.0
// Laws of use_cp: an explicit True is segmented or rejected, never something else; segments change
// bits within the tolerance only; False never segments.
#include <limits>

#include "tests/op/oracle/delta_law.h"

namespace laws {
namespace {

using tilegate::DeltaRule;
using tilegate::DType;
using tilegate::UseCp;

class ContextParallel : public DeltaLaw {
 protected:
  static DeltaCall call_of(DeltaRule rule, Dims lens, DType dtype = DType::kFloat32) {
    DeltaShape shape;
    shape.rule = rule;
    shape.lens = std::move(lens);
    shape.dim_k = shape.dim_v = 32;
    shape.dtype = dtype;
    shape.householder = rule == DeltaRule::kGatedDeltaProduct ? 2 : 1;
    return make_delta(shape);
  }
};

TEST_P(ContextParallel, SegmentsAreTheRecurrence) {
  may_reject();
  for (const DeltaRule rule : kChunkRules) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      for (const UseCp use_cp : {UseCp::kTrue, UseCp::kFalse, UseCp::kAuto}) {
        DeltaCall call = call_of(rule, {1100, 0, 3, 600}, dtype);
        call.options.use_cp = use_cp;
        expect_oracle(call, "use_cp " + std::to_string(static_cast<int>(use_cp)));
      }
    }
  }
}

TEST_P(ContextParallel, WithEveryOptionalFeature) {
  may_reject();
  for (const DeltaRule rule : kChunkRules) {
    DeltaCall call = call_of(rule, {900, 5, 0});
    call.options.use_cp = UseCp::kTrue;
    call.options.use_qk_l2norm = true;
    call.use_pool();
    expect_oracle(call, "pool");
    DeltaCall bare = call_of(rule, {900, 5});
    bare.options.use_cp = UseCp::kTrue;
    bare.g = bare.beta = bare.initial_state = {};
    // Unit gates and random keys: the recurrence is a product of projections.
    expect_oracle(bare, "nothing optional");
  }
}

TEST_P(ContextParallel, CheckpointsInsideAndBetweenSegments) {
  may_reject();
  for (const DeltaRule rule : kChunkRules) {
    for (const auto position :
         {tilegate::CheckpointPosition::kAfter, tilegate::CheckpointPosition::kBefore}) {
      const std::int64_t every = 256;
      DeltaCall call = call_of(rule, {1100, 0, 300});
      call.options.use_cp = UseCp::kTrue;
      call.add_checkpoints(every, position, DType::kFloat32);
      const DeltaAnswer expected = delta_oracle(call, every);
      if (!run(call)) continue;
      const std::size_t skip = position == tilegate::CheckpointPosition::kAfter ? 1 : 0;
      for (const std::size_t i : {0, 2}) {
        const auto start = static_cast<std::int64_t>(call.checkpoint_cu_starts.at(i));
        for (std::int64_t j = 0; j < call.checkpoints_of(i); ++j) {
          expect_close(call.state_checkpoints.select(0, start + j),
                       expected.states[i].at(static_cast<std::size_t>(j) + skip),
                       tolerance(Quantity::kState, DType::kFloat32), "segmented checkpoint");
        }
      }
    }
  }
}

TEST_P(ContextParallel, ForgettingAndFreshSlots) {
  may_reject();
  for (const DeltaRule rule : kChunkRules) {
    DeltaCall call = call_of(rule, {1100, 700});
    const bool linear = rule == DeltaRule::kGatedDeltaRule || rule == DeltaRule::kGatedDeltaProduct;
    for (const std::int64_t token : {3, 511, 512, 900}) {
      call.g.select(0, token).fill(linear ? 0.0 : -std::numeric_limits<double>::infinity());
    }
    call.options.use_cp = UseCp::kTrue;
    call.use_pool();
    call.has_initial_state = Tensor::bytes({1, 0});
    call.state_pool.select(0, static_cast<std::int64_t>(call.state_indices.at(1))).poison();
    expect_oracle(call, "segments that forget");
  }
}

TEST_P(ContextParallel, AnyNumberOfThreads) {
  if (!on_cpu_device()) GTEST_SKIP() << "threads are the CPU's";
  may_reject();
  for (const DeltaRule rule : kChunkRules) {
    DeltaCall one = call_of(rule, {1100, 0, 3, 600}), two = call_of(rule, {1100, 0, 3, 600});
    one.options.use_cp = two.options.use_cp = UseCp::kTrue;
    if (!run(one, 1) || !run(two, 2)) continue;
    expect_same_bits(two.o, one.o, "o of segments on two threads");
    expect_same_bits(two.output_state, one.output_state, "state of segments on two threads");
  }
}

TEST_P(ContextParallel, ReferenceRejectsAnExplicitTrue) {
  if (!on(tilegate::Backend::kReference)) GTEST_SKIP() << "a rule of the reference backend";
  DeltaCall call = call_of(DeltaRule::kGatedDeltaRule, {100});
  call.options.use_cp = UseCp::kTrue;
  const tilegate::Status status = attempt(call);
  EXPECT_EQ(status.code(), tilegate::StatusCode::kUnsupported) << status.to_string();
  EXPECT_NE(status.message().find("use_cp"), std::string::npos) << status.message();
  expect_untouched(call.o, "o of a rejected call");
  expect_untouched(call.output_state, "state of a rejected call");
}

TEST_P(ContextParallel, CpuServesAnExplicitTrue) {
  if (!on(tilegate::Backend::kCpu)) GTEST_SKIP() << "a rule of the cpu backend";
  for (const DeltaRule rule : kChunkRules) {
    DeltaCall call = call_of(rule, {400, 3});
    call.options.use_cp = UseCp::kTrue;
    expect_oracle(call, "explicit use_cp");
  }
}

// Boundaries pinned by token position: a sequence alone keeps its bits in a segmented batch too.
TEST_P(ContextParallel, BatchInvariantSegments) {
  may_reject();
  for (const DeltaRule rule : kChunkRules) {
    DeltaCall batch = call_of(rule, {700, 90});
    batch.options.use_cp = UseCp::kTrue;
    batch.options.batch_invariant = true;
    if (!run(batch)) continue;
    EXPECT_TRUE(pinned()) << explain();
    for (std::size_t i = 0; i < 2; ++i) {
      DeltaCall single = part_of(batch, i, 0, batch.lens[i]);
      if (run(single)) expect_same_bits(single.o, batch.o_of(i), "o alone, segmented");
    }
  }
}

LAWS_ON_EVERY_BACKEND(ContextParallel);

}  // namespace
}  // namespace laws
