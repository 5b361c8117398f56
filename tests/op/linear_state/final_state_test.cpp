// SPDX-License-Identifier: Apache-2.0
// Laws of the final state: written only when asked for, in its own dtype, and it may be the very
// tensor that held the initial state.
#include "tests/op/oracle/delta_law.h"

namespace laws {
namespace {

using tilegate::DeltaRule;
using tilegate::DType;

constexpr DType kFloats[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};

class FinalStates : public DeltaLaw {
 protected:
  static DeltaCall call_of(DeltaRule rule, DType initial = DType::kFloat32) {
    DeltaShape shape;
    shape.rule = rule;
    shape.lens = lengths({20, 70, 0});
    shape.dim_k = shape.dim_v = 32;
    shape.state_dtype = initial;
    shape.householder = rule == DeltaRule::kGatedDeltaProduct ? 2 : 1;
    return make_delta(shape);
  }
};

TEST_P(FinalStates, NothingIsWrittenUnlessAskedFor) {
  for (const DeltaRule rule : kChunkRules) {
    DeltaCall with = call_of(rule);
    DeltaCall given = call_of(rule);
    given.options.output_final_state = false;
    DeltaCall absent = given;
    absent.reset_outputs();
    absent.output_state = {};
    if (!run(with) || !run(given) || !run(absent)) continue;
    expect_untouched(given.output_state, "output_state without output_final_state");
    expect_same_bits(given.o, with.o, "o does not depend on output_final_state");
    expect_same_bits(absent.o, with.o, "o does not depend on output_state");
  }
}

TEST_P(FinalStates, InitialAndFinalDtypesAreIndependent) {
  for (const DeltaRule rule : kChunkRules) {
    for (const DType initial : kFloats) {
      for (const DType final_dtype : kFloats) {
        DeltaCall call = call_of(rule, initial);
        call.output_state = Tensor::packed(final_dtype, call.output_state.shape());
        expect_oracle(call, "initial " + std::string(tilegate::to_string(initial)) + ", final " +
                                std::string(tilegate::to_string(final_dtype)));
      }
    }
  }
}

// The storage dtype only rounds what is stored: o of a run from a bf16 state is o from its values.
TEST_P(FinalStates, StorageRoundsOnlyWhatIsStored) {
  for (const DeltaRule rule : kChunkRules) {
    DeltaCall small = call_of(rule, DType::kBFloat16);
    DeltaCall wide = small;
    wide.reset_outputs();
    wide.initial_state = small.initial_state.as(DType::kFloat32);
    wide.output_state = Tensor::packed(DType::kFloat32, small.output_state.shape());
    if (!run(small) || !run(wide)) continue;
    expect_same_bits(small.o, wide.o, "o from a bf16 state");
    expect_same_bits(small.output_state, wide.output_state.as(DType::kBFloat16), "rounded state");
  }
}

TEST_P(FinalStates, MayOverwriteTheInitialState) {
  for (const DeltaRule rule : kChunkRules) {
    for (const DType state : kFloats) {
      DeltaCall apart = call_of(rule, state);
      DeltaCall in_place = call_of(rule, state);
      in_place.output_state = in_place.initial_state;
      if (!run(apart) || !run(in_place)) continue;
      expect_same_bits(in_place.o, apart.o, "o in place");
      expect_same_bits(in_place.output_state, apart.output_state, "state in place");
    }
  }
}

LAWS_ON_EVERY_BACKEND(FinalStates);

}  // namespace
}  // namespace laws
