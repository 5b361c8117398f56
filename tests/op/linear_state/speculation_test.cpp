// SPDX-License-Identifier: Apache-2.0
// Laws of speculative decoding: per-token slots hold the state after each token, accepted counts
// pick the slot to go on from, and a verify call that writes no state leaves a record from which
// commit() reaches the state of a run over the accepted tokens.
#include "tests/op/calls/small_calls.h"
#include "tests/op/oracle/delta_law.h"

namespace laws {
namespace {

using tilegate::DeltaRule;
using tilegate::DType;

constexpr DeltaRule kEveryRule[] = {DeltaRule::kGatedDeltaRule, DeltaRule::kGatedDeltaRule2,
                                    DeltaRule::kGatedDeltaProduct, DeltaRule::kKda,
                                    DeltaRule::kGatedDeltaRuleDecode};
constexpr std::int64_t kTokens = 5;

class Speculation : public DeltaLaw {
 protected:
  static DeltaCall call_of(DeltaRule rule, DType dtype = DType::kFloat32,
                           DType state = DType::kFloat32) {
    DeltaShape shape;
    shape.rule = rule;
    shape.lens = Dims(3, kTokens);
    shape.heads_q = shape.heads_k = 2;
    shape.heads_v = 4;
    shape.dim_k = shape.dim_v = 32;
    shape.dtype = dtype;
    shape.state_dtype = state;
    shape.householder = rule == DeltaRule::kGatedDeltaProduct ? 2 : 1;
    DeltaCall call = make_delta(shape);
    call.options.max_seqlen = kTokens;
    call.options.use_qk_l2norm = true;
    return call;
  }
  // A pool whose slots 0..2 hold the states and 3.. one slot for every token.
  static void use_slots(DeltaCall& call) {
    call.use_pool(3 * kTokens);
    Tensor pool = Tensor::packed(call.state_pool.dtype(), call.state_pool.shape());
    for (std::int64_t i = 0; i < 3; ++i) {
      const auto from = static_cast<std::int64_t>(call.state_indices.at(i));
      pool.select(0, i).copy_from(call.state_pool.select(0, from));
      call.state_indices.set(static_cast<double>(i), i);
    }
    call.state_pool = pool;
    call.state_slots = Tensor::packed(DType::kInt32, {3, kTokens});
    for (std::int64_t i = 0; i < 3 * kTokens; ++i) {
      call.state_slots.set_flat(i, static_cast<double>(3 + i));
    }
  }
  static void add_record(DeltaCall& call) {
    const std::int64_t rows = kTokens * call.options.num_householder, k = call.dim_k();
    const bool channel = call.rule == DeltaRule::kGatedDeltaRule2 || call.rule == DeltaRule::kKda;
    call.record_k = Tensor::packed(DType::kFloat32, {3, rows, 2, k});
    call.record_d = Tensor::packed(DType::kFloat32, {3, rows, 4, call.dim_v()});
    call.record_decay =
        Tensor::packed(DType::kFloat32, channel ? Dims{3, kTokens, 4, k} : Dims{3, kTokens, 4});
  }
  static CommitCall commit_of(const DeltaCall& call, Tensor pool, const Dims& accepted) {
    CommitCall commit;
    commit.state_pool = std::move(pool);
    commit.state_indices = call.state_indices;
    commit.record_k = call.record_k;
    commit.record_d = call.record_d;
    commit.record_decay = call.record_decay;
    commit.accepted = Tensor::indices(accepted);
    commit.options.num_householder = call.options.num_householder;
    return commit;
  }
};

TEST_P(Speculation, PerTokenSlotsHoldTheStateAfterEachToken) {
  for (const DeltaRule rule : kEveryRule) {
    for (const DType state : {DType::kFloat32, DType::kBFloat16}) {
      DeltaCall call = call_of(rule, DType::kFloat32, state);
      use_slots(call);
      call.state_slots.set(-1, 1, 2);
      const Tensor before = call.state_pool.clone();
      const DeltaAnswer expected = delta_oracle(call, 1);
      if (!run(call)) continue;
      expect_close(call.o_rows(), expected.o, tolerance(Quantity::kDelta, DType::kFloat32),
                   "o with per-token slots, " + label(call));
      for (std::int64_t i = 0; i < 3; ++i) {
        expect_same_bits(call.state_pool.select(0, i), before.select(0, i), "the slot read");
        for (std::int64_t t = 0; t < kTokens; ++t) {
          const Tensor slot = call.state_pool.select(0, 3 + i * kTokens + t);
          if (i == 1 && t == 2) {
            expect_untouched(slot, "a slot that was skipped");
            continue;
          }
          expect_close(
              slot,
              expected.states[static_cast<std::size_t>(i)].at(static_cast<std::size_t>(t + 1)),
              tolerance(Quantity::kState, state),
              "slot after token " + std::to_string(t) + " of " + label(call));
        }
      }
    }
  }
}

// n accepted tokens go on from column n - 1 of the last step's slots; 0 from the state before it.
TEST_P(Speculation, AcceptedCountsPickTheSlotToGoOnFrom) {
  for (const DeltaRule rule : kEveryRule) {
    DeltaCall first = call_of(rule);
    use_slots(first);
    if (!run(first)) continue;
    DeltaCall next = first;
    next.reset_outputs();
    next.state_pool = first.state_pool.clone();
    next.num_accepted_tokens = Tensor::indices({0, 2, kTokens});
    DeltaCall plain = call_of(rule);
    plain.initial_state = Tensor::packed(DType::kFloat32, plain.initial_state.shape());
    plain.initial_state.select(0, 0).copy_from(first.state_pool.select(0, 0));
    plain.initial_state.select(0, 1).copy_from(first.state_pool.select(0, 3 + kTokens + 1));
    plain.initial_state.select(0, 2).copy_from(first.state_pool.select(0, 2 + 3 * kTokens));
    const DeltaAnswer expected = delta_oracle(plain, 1);
    if (!run(next)) continue;
    const Tolerance close = tolerance(Quantity::kDelta, DType::kFloat32);
    expect_close(next.o_rows(), expected.o, close, "o after acceptance, " + label(next));
    for (std::int64_t i = 0; i < 3; ++i) {
      expect_close(next.state_pool.select(0, 2 + (i + 1) * kTokens),
                   expected.final_state[static_cast<std::size_t>(i)], close,
                   "last slot after acceptance");
    }
  }
}

TEST_P(Speculation, VerifyWritesNoState) {
  for (const DeltaRule rule : kEveryRule) {
    for (const bool pooled : {false, true}) {
      DeltaCall with = call_of(rule);
      DeltaCall verify = call_of(rule);
      if (pooled) {
        with.use_pool();
        verify.use_pool();
      }
      verify.options.output_final_state = false;
      verify.options.disable_state_update = true;
      add_record(verify);
      const Tensor before = verify.state_pool.clone();
      if (!run(with) || !run(verify)) continue;
      // A verify call may take another kernel than a run that stores its state.
      expect_close(verify.o_rows(), with.o_rows(), tolerance(Quantity::kDelta, DType::kFloat32),
                   "o of a verify call");
      if (pooled) expect_same_bits(verify.state_pool, before, "pool of a verify call");
      if (!pooled) expect_untouched(verify.output_state, "output_state of a verify call");
    }
  }
}

TEST_P(Speculation, CommitReachesTheStateOfTheAcceptedTokens) {
  for (const DeltaRule rule : kEveryRule) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      for (const DType state : {DType::kFloat32, DType::kFloat16}) {
        DeltaCall verify = call_of(rule, dtype, state);
        verify.use_pool();
        verify.options.disable_state_update = true;
        add_record(verify);
        const DeltaAnswer expected = delta_oracle(verify, 1);
        if (!run(verify)) continue;
        for (const Dims& accepted : {Dims{0, 1, kTokens}, Dims{3, 0, 2}}) {
          CommitCall commit = commit_of(verify, verify.state_pool.clone(), accepted);
          if (!run(commit)) continue;
          for (std::size_t i = 0; i < 3; ++i) {
            const auto slot = static_cast<std::int64_t>(verify.state_indices.at(i));
            const Tensor after = commit.state_pool.select(0, slot);
            if (accepted[i] == 0) {
              expect_same_bits(after, verify.state_pool.select(0, slot), "nothing accepted");
              continue;
            }
            expect_close(after, expected.states[i].at(static_cast<std::size_t>(accepted[i])),
                         tolerance(Quantity::kState, coarser(dtype, state)),
                         "committed state, " + label(verify));
          }
        }
      }
    }
  }
}

TEST_P(Speculation, CommitSkipsNegativeSlotsAndUnacceptedRecords) {
  DeltaCall verify = call_of(DeltaRule::kGatedDeltaRule);
  verify.use_pool();
  verify.options.disable_state_update = true;
  add_record(verify);
  if (!run(verify)) return;
  CommitCall clean = commit_of(verify, verify.state_pool.clone(), {2, 2, 2});
  CommitCall commit = commit_of(verify, verify.state_pool.clone(), {2, 2, 2});
  commit.state_indices = verify.state_indices.clone();
  commit.state_indices.set(-1, 1);
  for (Tensor* record : {&commit.record_k, &commit.record_d, &commit.record_decay}) {
    *record = record->clone();
    record->slice(1, 2, kTokens).poison();  // past the accepted tokens: never read
  }
  if (!run(clean) || !run(commit)) return;
  for (std::int64_t i = 0; i < 3; ++i) {
    const auto slot = static_cast<std::int64_t>(verify.state_indices.at(i));
    const Tensor& want = i == 1 ? verify.state_pool : clean.state_pool;
    expect_same_bits(commit.state_pool.select(0, slot), want.select(0, slot), "committed slot");
  }
}

// Gates that forget must clear a state of 1e12: a floor under ln alpha would show.
TEST_P(Speculation, CommitForgetsExactly) {
  DeltaCall verify = call_of(DeltaRule::kGatedDeltaRule);
  verify.use_pool();
  verify.options.disable_state_update = true;
  verify.g.select(0, 1).fill(0.0);
  add_record(verify);
  const auto first = static_cast<std::int64_t>(verify.state_indices.at(0));
  Tensor state = verify.state_pool.select(0, first);
  for (std::int64_t i = 0; i < state.numel(); ++i) state.set_flat(i, 1e12 * state.flat(i));
  const DeltaAnswer expected = delta_oracle(verify, 1);
  if (!run(verify)) return;
  CommitCall commit = commit_of(verify, verify.state_pool.clone(), {kTokens, kTokens, kTokens});
  if (!run(commit)) return;
  expect_close(commit.state_pool.select(0, first), expected.final_state[0],
               tolerance(Quantity::kState, DType::kFloat32), "state after a forgetting token");
}

LAWS_ON_EVERY_BACKEND(Speculation);

}  // namespace
}  // namespace laws
