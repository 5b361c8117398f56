// SPDX-License-Identifier: Apache-2.0
// Laws of checkpoints: number j is the state after (j + 1) C tokens, or before token j C; it is the
// final state of the run that stops there, bitwise when the plan's bits are pinned.
#include "tests/op/oracle/delta_law.h"

namespace laws {
namespace {

using tilegate::CheckpointPosition;
using tilegate::DeltaRule;
using tilegate::DType;

class Checkpoints : public DeltaLaw {
 protected:
  static DeltaCall call_of(DeltaRule rule, Dims lens) {
    DeltaShape shape;
    shape.rule = rule;
    shape.lens = lengths(std::move(lens));
    shape.dim_k = shape.dim_v = 32;
    shape.householder = rule == DeltaRule::kGatedDeltaProduct ? 2 : 1;
    return make_delta(shape);
  }
  // Row of checkpoint j of sequence i.
  static std::int64_t row_of(const DeltaCall& call, std::size_t i, std::int64_t j) {
    return static_cast<std::int64_t>(call.checkpoint_cu_starts.at(i)) + j;
  }
  void expect_checkpoints(const DeltaCall& call, const DeltaAnswer& expected) {
    const std::int64_t before =
        call.options.checkpoint_position == CheckpointPosition::kBefore ? 1 : 0;
    const Tolerance close =
        tolerance(Quantity::kState, state_precision(call, call.state_checkpoints));
    std::int64_t rows = 0;
    for (std::size_t i = 0; i < call.lens.size(); ++i) {
      for (std::int64_t j = 0; j < call.checkpoints_of(i); ++j, ++rows) {
        const auto state = static_cast<std::size_t>(j + 1 - before);
        expect_close(call.state_checkpoints.select(0, row_of(call, i, j)),
                     expected.states[i].at(state), close,
                     "checkpoint " + std::to_string(j) + " of sequence " + std::to_string(i) +
                         " of " + label(call));
      }
    }
    expect_untouched(call.state_checkpoints.slice(0, rows, call.state_checkpoints.dim(0)),
                     "checkpoint rows of nobody");
  }
};

TEST_P(Checkpoints, AreTheStatesBetweenTokens) {
  for (const DeltaRule rule : kChunkRules) {
    for (const std::int64_t every : {16, 48, 64, 128}) {
      for (const auto position : {CheckpointPosition::kAfter, CheckpointPosition::kBefore}) {
        for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
          DeltaCall call = call_of(rule, {150, 0, 16, 5, 128});
          call.add_checkpoints(every, position, dtype);
          const DeltaAnswer expected = delta_oracle(call, every);
          if (run(call)) expect_checkpoints(call, expected);
        }
      }
    }
  }
}

TEST_P(Checkpoints, EqualTheFinalStateOfAShorterRun) {
  for (const DeltaRule rule : kChunkRules) {
    for (const bool invariant : {false, true}) {
      DeltaCall call = call_of(rule, {20, 150});
      call.add_checkpoints(16, CheckpointPosition::kAfter, DType::kFloat32);
      call.options.batch_invariant = invariant;
      if (!run(call)) continue;
      const bool call_pinned = pinned();
      EXPECT_TRUE(call_pinned || !invariant) << explain();
      for (std::int64_t j = 0; j < call.checkpoints_of(1); ++j) {
        DeltaCall shorter = part_of(call, 1, 0, 16 * (j + 1));
        shorter.options.batch_invariant = invariant;
        if (!run(shorter)) continue;
        const Tensor checkpoint =
            call.state_checkpoints.slice(0, row_of(call, 1, j), row_of(call, 1, j) + 1);
        if (call_pinned && pinned()) {
          expect_same_bits(checkpoint, shorter.output_state, "pinned checkpoint, " + label(call));
        }
        expect_close(checkpoint, shorter.output_state, tolerance(Quantity::kState, DType::kFloat32),
                     "checkpoint");
      }
    }
  }
}

TEST_P(Checkpoints, BeforeStartsWithTheInitialStateBitwise) {
  for (const DeltaRule rule : kChunkRules) {
    DeltaCall call = call_of(rule, {70, 3});
    call.add_checkpoints(32, CheckpointPosition::kBefore, DType::kFloat32);
    if (!run(call)) continue;
    for (const std::size_t i : {0, 1}) {
      expect_same_bits(call.state_checkpoints.select(0, row_of(call, i, 0)),
                       call.initial_state.select(0, static_cast<std::int64_t>(i)),
                       "the first checkpoint before its tokens");
    }
  }
}

TEST_P(Checkpoints, DoNotChangeTheRun) {
  for (const DeltaRule rule : kChunkRules) {
    DeltaCall plain = call_of(rule, {150, 40});
    DeltaCall call = call_of(rule, {150, 40});
    call.add_checkpoints(16, CheckpointPosition::kAfter, DType::kFloat32);
    plain.options.batch_invariant = call.options.batch_invariant = true;
    if (!run(plain) || !run(call)) continue;
    expect_same_bits(call.o, plain.o, "o with checkpoints");
    expect_same_bits(call.output_state, plain.output_state, "state with checkpoints");
  }
}

TEST_P(Checkpoints, GoToTheirDestinationRows) {
  for (const DeltaRule rule : kChunkRules) {
    for (const auto position : {CheckpointPosition::kAfter, CheckpointPosition::kBefore}) {
      DeltaCall direct = call_of(rule, {70, 0, 40});
      direct.add_checkpoints(16, position, DType::kFloat32);
      const auto rows = static_cast<std::int64_t>(direct.checkpoint_cu_starts.at(3));
      DeltaCall call = direct;
      call.reset_outputs();
      Dims destinations = Random(81).permutation(rows + 5);
      destinations.resize(static_cast<std::size_t>(rows));
      destinations[1] = -1;
      call.checkpoint_state_indices = Tensor::indices(destinations, DType::kInt64);
      Dims shape = direct.state_checkpoints.shape();
      shape[0] = rows + 5;
      call.state_checkpoints = Tensor::packed(DType::kFloat32, shape);
      if (!run(direct) || !run(call)) continue;
      std::vector<bool> written(static_cast<std::size_t>(rows + 5), false);
      for (std::int64_t r = 0; r < rows; ++r) {
        const std::int64_t to = destinations[static_cast<std::size_t>(r)];
        if (to < 0) continue;
        written[static_cast<std::size_t>(to)] = true;
        expect_same_bits(call.state_checkpoints.select(0, to),
                         direct.state_checkpoints.select(0, r), "a redirected checkpoint");
      }
      for (std::int64_t s = 0; s < rows + 5; ++s) {
        if (!written[static_cast<std::size_t>(s)]) {
          expect_untouched(call.state_checkpoints.select(0, s), "a checkpoint row of nobody");
        }
      }
    }
  }
}

TEST_P(Checkpoints, StartsWithoutTheLastOffset) {
  DeltaCall full = call_of(DeltaRule::kGatedDeltaRule, {70, 40});
  full.add_checkpoints(16, CheckpointPosition::kAfter, DType::kFloat32);
  DeltaCall call = full;
  call.reset_outputs();
  call.checkpoint_cu_starts = full.checkpoint_cu_starts.slice(0, 0, 2);
  if (!run(full) || !run(call)) return;
  expect_same_bits(call.state_checkpoints, full.state_checkpoints, "checkpoints of N starts");
}

TEST_P(Checkpoints, OfPoolsAndSkippedSequences) {
  for (const DeltaRule rule : kChunkRules) {
    DeltaCall call = call_of(rule, {40, 33, 20});
    call.use_pool();
    call.state_indices.set(-1, 1);
    call.add_checkpoints(16, CheckpointPosition::kAfter, DType::kFloat32);
    const DeltaAnswer expected = delta_oracle(call, 16);
    if (!run(call)) continue;
    const Tolerance close = tolerance(Quantity::kState, DType::kFloat32);
    for (const std::size_t i : {0, 2}) {
      expect_close(call.state_checkpoints.select(0, row_of(call, i, 0)), expected.states[i][1],
                   close, "checkpoint beside a skipped sequence");
    }
    for (std::int64_t j = 0; j < call.checkpoints_of(1); ++j) {
      expect_untouched(call.state_checkpoints.select(0, row_of(call, 1, j)),
                       "checkpoint of a skipped sequence");
    }
  }
}

TEST_P(Checkpoints, IntervalMustBeAMultipleOf16) {
  for (const std::int64_t every : {1, 8, 24, -16}) {
    DeltaCall call = call_of(DeltaRule::kGatedDeltaRule, {64});
    call.add_checkpoints(16, CheckpointPosition::kAfter, DType::kFloat32);
    call.options.checkpoint_every_n_tokens = every;
    const tilegate::Status status = attempt(call);
    EXPECT_EQ(status.code(), tilegate::StatusCode::kInvalidArgument) << status.to_string();
    EXPECT_NE(status.message().find("checkpoint_every_n_tokens"), std::string::npos);
    EXPECT_NE(status.message().find("16"), std::string::npos) << status.message();
  }
}

LAWS_ON_EVERY_BACKEND(Checkpoints);

}  // namespace
}  // namespace laws
