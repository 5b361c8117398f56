// SPDX-License-Identifier: Apache-2.0
// Laws of stable bits: prefix rows do not depend on later tokens, a sequence alone equals itself
// in any batch, no initial state is a zero state, and a run handed over in two equals one run.
#include "tests/op/oracle/delta_law.h"

namespace laws {
namespace {

using tilegate::DeltaRule;
using tilegate::DType;

constexpr DType kFloats[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};

class Prefixes : public DeltaLaw {
 protected:
  static DeltaShape shape_of(DeltaRule rule, DType dtype = DType::kFloat32) {
    DeltaShape shape;
    shape.rule = rule;
    shape.dtype = dtype;
    shape.dim_k = shape.dim_v = 32;
    shape.householder = rule == DeltaRule::kGatedDeltaProduct ? 2 : 1;
    return shape;
  }
};

TEST_P(Prefixes, OutputsDoNotDependOnLaterTokens) {
  for (const DeltaRule rule : kChunkRules) {
    for (const std::int64_t prefix : {1, 15, 16, 63, 64, 65, 130}) {
      DeltaShape shape = shape_of(rule);
      shape.lens = lengths({150});
      DeltaCall call = make_delta(shape);
      if (prefix >= call.tokens()) continue;
      DeltaCall shorter = part_of(call, 0, 0, prefix);
      call.options.batch_invariant = shorter.options.batch_invariant = true;
      if (!run(call) || !run(shorter)) continue;
      EXPECT_TRUE(pinned()) << explain();
      expect_same_bits(shorter.o, call.o.slice(0, 0, prefix), "o of a prefix, " + label(call));
    }
  }
}

// Without batch_invariant the bits hold when explain() says so, the tolerance always.
TEST_P(Prefixes, OutputsOfTheDefaultPlan) {
  for (const DeltaRule rule : kChunkRules) {
    DeltaShape shape = shape_of(rule);
    shape.lens = lengths({1000});
    DeltaCall call = make_delta(shape);
    const std::int64_t end = call.tokens() * 7 / 10;
    DeltaCall shorter = part_of(call, 0, 0, end);
    if (!run(call)) continue;
    const bool call_pinned = pinned();
    if (!run(shorter)) continue;
    const Tensor prefix = call.o.slice(0, 0, end);
    expect_close(shorter.o, prefix, tolerance(Quantity::kDelta, DType::kFloat32), "o of a prefix");
    if (call_pinned && pinned()) expect_same_bits(shorter.o, prefix, "pinned o of a prefix");
  }
}

TEST_P(Prefixes, ASequenceAloneEqualsItselfInABatch) {
  for (const DeltaRule rule : kChunkRules) {
    for (const DType dtype : kFloats) {
      DeltaShape shape = shape_of(rule, dtype);
      shape.lens = lengths({300, 5, 0, 64, 129});
      DeltaCall batch = make_delta(shape);
      batch.options.batch_invariant = true;
      batch.options.max_seqlen = 4000;
      if (!run(batch)) continue;
      EXPECT_TRUE(pinned()) << explain();
      for (std::size_t i = 0; i < shape.lens.size(); ++i) {
        DeltaCall single = part_of(batch, i, 0, shape.lens[i]);
        single.options.max_seqlen = 0;
        if (!run(single)) continue;
        expect_same_bits(single.o, batch.o_of(i), "o alone, " + label(batch));
        const auto row = static_cast<std::int64_t>(i);
        expect_same_bits(single.output_state, batch.output_state.slice(0, row, row + 1),
                         "state alone, " + label(batch));
      }
    }
  }
}

TEST_P(Prefixes, NoInitialStateIsAZeroStateBitwise) {
  for (const DeltaRule rule : kChunkRules) {
    for (const DType dtype : kFloats) {
      DeltaShape shape = shape_of(rule, dtype);
      shape.lens = lengths({70, 0, 3});
      DeltaCall zeros = make_delta(shape);
      zeros.initial_state = zeros.initial_state.clone().fill(0.0);
      DeltaCall none = zeros;
      none.reset_outputs();
      none.initial_state = {};
      DeltaCall fresh = zeros;
      fresh.reset_outputs();
      fresh.initial_state = Tensor::packed(DType::kFloat32, zeros.initial_state.shape());
      fresh.has_initial_state = Tensor::bytes({0, 0, 0});
      if (!run(zeros) || !run(none)) continue;
      expect_same_bits(none.o, zeros.o, "o without an initial state");
      expect_same_bits(none.output_state, zeros.output_state, "state without an initial state");
      if (!run(fresh)) continue;
      expect_same_bits(fresh.o, zeros.o, "o with has_initial_state = 0 over NaN");
      expect_same_bits(fresh.output_state, zeros.output_state, "state over NaN");
    }
  }
}

// Prefill of P tokens, then T - P more from its final state (one by one, or in one call) is one
// run.
TEST_P(Prefixes, AHandedOverRunIsOneRun) {
  for (const DeltaRule rule : kChunkRules) {
    for (const DType state : {DType::kFloat32, DType::kBFloat16}) {
      DeltaShape shape = shape_of(rule);
      shape.lens = lengths({90});
      shape.state_dtype = state;
      DeltaCall whole = make_delta(shape);
      if (!run(whole)) continue;
      const std::int64_t total = whole.tokens(), first = total / 2;
      for (const std::int64_t step : {std::int64_t{1}, first}) {
        Tensor carried = whole.initial_state;
        Tensor o = Tensor::packed(whole.o.dtype(), {total, 2, 32});
        for (std::int64_t begin = 0; begin < total;) {
          const std::int64_t end = begin == 0 ? first : begin + step;
          DeltaCall part = part_of(whole, 0, begin, end);
          part.initial_state = carried;
          if (!run(part)) return;
          o.slice(0, begin, end).copy_from(part.o);
          carried = part.output_state;
          begin = end;
        }
        // A bf16 state is rounded at every hand-over.
        Tolerance close = tolerance(Quantity::kDelta, state);
        if (state == DType::kBFloat16) close = {2 * close.rel_rms, 2 * close.max_rel};
        expect_close(o, whole.o_rows(), close, "o in steps of " + std::to_string(step));
        expect_close(carried, whole.output_state, close,
                     "state in steps of " + std::to_string(step));
      }
    }
  }
}

LAWS_ON_EVERY_BACKEND(Prefixes);

}  // namespace
}  // namespace laws
