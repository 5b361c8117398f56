// SPDX-License-Identifier: Apache-2.0
// The reference delta rule against hand computation and against itself: slots, accepted counts,
// records and checkpoints must be the states of shorter runs. 2 sequences of 5 tokens, heads
// q 2, k 2, v 4, K = 8, V = 16, fp32.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <deque>
#include <random>

#include "backend/reference/candidates.h"
#include "core/message.h"
#include "tests/unit/linear/call.h"
#include "tilegate/tilegate.h"

namespace tilegate {
namespace {

constexpr std::int64_t kSeqs = 2;
constexpr std::int64_t kTokens = 5;
constexpr std::int64_t kSlots = 12;
constexpr std::int64_t kStateSize = 4 * 16 * 8;

// Owns what the views of a test point to.
class Memory {
 public:
  TensorView filled(std::initializer_list<std::int64_t> shape, float low, float high) {
    TensorView view = fp32(shape);
    std::vector<float>& values = floats_.emplace_back(static_cast<std::size_t>(view.numel()));
    std::uniform_real_distribution<float> uniform(low, high);
    for (float& x : values) x = low == high ? low : uniform(random_);
    view.data = values.data();
    return view;
  }
  TensorView indices(std::vector<std::int32_t> values, std::initializer_list<std::int64_t> shape) {
    TensorView view = int32(shape);
    view.data = indices_.emplace_back(std::move(values)).data();
    return view;
  }
  TensorView copy(const TensorView& from) {
    TensorView view = from;
    const auto* begin = static_cast<const float*>(from.data);
    view.data = floats_.emplace_back(begin, begin + from.numel()).data();
    return view;
  }

 private:
  std::mt19937 random_{7};
  std::deque<std::vector<float>> floats_;
  std::deque<std::vector<std::int32_t>> indices_;
};

const float* state_of(const TensorView& states, std::int64_t row) {
  return static_cast<const float*>(states.data) + row * states.strides[0];
}

bool same_state(const float* a, const float* b) {
  return std::memcmp(a, b, kStateSize * sizeof(float)) == 0;
}

bool same_bits(const TensorView& a, const TensorView& b) {
  return std::memcmp(a.data, b.data, static_cast<std::size_t>(a.numel()) * sizeof(float)) == 0;
}

Status launch(const Operation& op) {
  TILEGATE_RETURN_IF_ERROR(check_values(op));
  Resources resources(2);
  const DeviceFacts facts;
  for (const Candidate& candidate : reference_linear_candidates()) {
    if (candidate.reject(op, facts)) continue;
    const Schedule schedule = candidate.schedule(op, facts);
    return candidate.launch(
        {.call = op, .schedule = schedule, .facts = facts, .resources = resources});
  }
  return Status(StatusCode::kUnsupported, "no candidate");
}

void run(const LinearCall& call) {
  const Result<Operation> op = normalise_linear(call.rule, call.args, call.options);
  ASSERT_TRUE(op.ok()) << op.status().message();
  const Status status = launch(*op);
  ASSERT_TRUE(status.ok()) << status.message();
}

void run_commit(const CommitArgs& args, const CommitOptions& options) {
  const Result<Operation> op = normalise_commit(args, options);
  ASSERT_TRUE(op.ok()) << op.status().message();
  const Status status = launch(*op);
  ASSERT_TRUE(status.ok()) << status.message();
}

// A uniform batch on slots 3 and 8 of a pool.
LinearCall random_call(DeltaRule rule, Memory& memory) {
  LinearCall call;
  call.rule = rule;
  const std::int64_t n = rule == DeltaRule::kGatedDeltaProduct ? 2 : 1;
  call.options.num_householder = n;
  call.options.use_qk_l2norm = true;
  call.args.q = memory.filled({kSeqs, kTokens, 2, 8}, -1, 1);
  call.args.k = memory.filled({kSeqs, kTokens * n, 2, 8}, -1, 1);
  call.args.v = memory.filled({kSeqs, kTokens * n, 4, 16}, -1, 1);
  call.args.g = rule == DeltaRule::kKda ? memory.filled({kSeqs, kTokens, 4, 8}, -1, 0)
                                        : memory.filled({kSeqs, kTokens, 4}, 0.5f, 1);
  call.args.beta = memory.filled({kSeqs, kTokens * n, 4}, 0, 1);
  call.args.o = memory.filled({kSeqs, kTokens, 4, 16}, 0, 0);
  call.args.state_pool = memory.filled({kSlots, 4, 16, 8}, -1, 1);
  call.args.state_indices = memory.indices({3, 8}, {kSeqs});
  return call;
}

// The call cut to its first `tokens` tokens, on its own copy of the pool.
LinearCall first_tokens(LinearCall call, std::int64_t tokens, Memory& memory) {
  const std::int64_t n = call.options.num_householder;
  call.args.state_pool = memory.copy(call.args.state_pool);
  call.args.o = memory.copy(call.args.o);
  for (TensorView* view : {&call.args.q, &call.args.g, &call.args.o}) view->shape[1] = tokens;
  for (TensorView* view : {&call.args.k, &call.args.v, &call.args.beta}) {
    view->shape[1] = tokens * n;
  }
  return call;
}

// The call's tokens from `tokens` on, on its own copy of the outputs.
LinearCall tokens_from(LinearCall call, std::int64_t tokens, Memory& memory) {
  const std::int64_t n = call.options.num_householder;
  const auto advance = [](TensorView& view, std::int64_t rows) {
    view.data = static_cast<float*>(view.data) + rows * view.strides[1];
    view.shape[1] -= rows;
  };
  call.args.o = memory.copy(call.args.o);
  for (TensorView* view : {&call.args.q, &call.args.g, &call.args.o}) advance(*view, tokens);
  for (TensorView* view : {&call.args.k, &call.args.v, &call.args.beta}) advance(*view, tokens * n);
  return call;
}

TEST(LinearReference, OneTokenByHand) {
  Memory memory;
  LinearCall call;
  call.options.scale = 2.0;
  call.options.output_final_state = true;
  call.args.q = memory.filled({1, 1, 2}, 1, 1);
  call.args.k = memory.filled({1, 1, 2}, 0, 0);
  static_cast<float*>(call.args.k.data)[0] = 1.0f;
  call.args.v = memory.filled({1, 1, 1}, 3, 3);
  call.args.g = memory.filled({1, 1}, 0.5f, 0.5f);
  call.args.beta = memory.filled({1, 1}, 0.25f, 0.25f);
  call.args.o = memory.filled({1, 1, 1}, 0, 0);
  call.args.initial_state = memory.filled({1, 1, 1, 2}, 4, 4);
  call.args.output_state = memory.filled({1, 1, 1, 2}, 0, 0);
  run(call);
  // S = [4, 4] / 2 = [2, 2]; d = (3 - 2) / 4; S = [2.25, 2]; o = 2 * 4.25.
  EXPECT_EQ(state_of(call.args.output_state, 0)[0], 2.25f);
  EXPECT_EQ(state_of(call.args.output_state, 0)[1], 2.0f);
  EXPECT_EQ(state_of(call.args.o, 0)[0], 8.5f);
}

TEST(LinearReference, SlotsHoldTheStateAfterEveryToken) {
  Memory memory;
  LinearCall call = random_call(DeltaRule::kGatedDeltaProduct, memory);
  const LinearCall original = first_tokens(call, kTokens, memory);
  call.args.state_slots = memory.indices({3, 0, -1, 1, 2, 8, 4, 5, 6, 7}, {kSeqs, kTokens});
  run(call);
  for (std::int64_t t = 0; t < kTokens; ++t) {
    const LinearCall shorter = first_tokens(original, t + 1, memory);
    run(shorter);
    for (std::int64_t i = 0; i < kSeqs; ++i) {
      const auto* slots = static_cast<const std::int32_t*>(call.args.state_slots.data);
      const std::int64_t slot = slots[i * kTokens + t];
      if (slot < 0) continue;
      const std::int64_t home = i == 0 ? 3 : 8;
      EXPECT_TRUE(
          same_state(state_of(call.args.state_pool, slot), state_of(shorter.args.state_pool, home)))
          << "token " << t << " of sequence " << i;
    }
  }
}

TEST(LinearReference, AcceptedCountsChooseTheColumn) {
  Memory memory;
  LinearCall call = random_call(DeltaRule::kKda, memory);
  const LinearCall original = first_tokens(call, kTokens, memory);
  // Sequence 0 kept 2 tokens of the previous step (slot 5); sequence 1 kept none (slot 8).
  call.args.state_slots = memory.indices({4, 5, 6, -1, -1, 0, 1, 2, -1, -1}, {kSeqs, kTokens});
  call.args.num_accepted_tokens = memory.indices({2, 0}, {kSeqs});
  run(call);
  LinearCall plain = first_tokens(original, 1, memory);
  plain.args.state_indices = memory.indices({5, 8}, {kSeqs});
  run(plain);
  EXPECT_TRUE(same_state(state_of(call.args.state_pool, 4), state_of(plain.args.state_pool, 5)));
  EXPECT_TRUE(same_state(state_of(call.args.state_pool, 0), state_of(plain.args.state_pool, 8)));
  EXPECT_TRUE(same_state(state_of(call.args.state_pool, 8), state_of(original.args.state_pool, 8)));
}

TEST(LinearReference, CommitAdvancesByTheAcceptedTokens) {
  for (DeltaRule rule :
       {DeltaRule::kGatedDeltaRule, DeltaRule::kGatedDeltaProduct, DeltaRule::kKda}) {
    Memory memory;
    LinearCall verify = random_call(rule, memory);
    const LinearCall original = first_tokens(verify, kTokens, memory);
    const std::int64_t n = verify.options.num_householder;
    verify.options.disable_state_update = true;
    verify.args.record_k = memory.filled({kSeqs, kTokens * n, 2, 8}, NAN, NAN);
    verify.args.record_d = memory.filled({kSeqs, kTokens * n, 4, 16}, NAN, NAN);
    verify.args.record_decay = rule == DeltaRule::kKda
                                   ? memory.filled({kSeqs, kTokens, 4, 8}, NAN, NAN)
                                   : memory.filled({kSeqs, kTokens, 4}, NAN, NAN);
    run(verify);
    EXPECT_TRUE(same_bits(verify.args.state_pool, original.args.state_pool));
    for (std::int64_t accepted = 1; accepted <= kTokens; ++accepted) {
      CommitArgs args;
      args.state_pool = memory.copy(original.args.state_pool);
      args.state_indices = memory.indices({3, 8}, {kSeqs});
      args.record_k = verify.args.record_k;
      args.record_d = verify.args.record_d;
      args.record_decay = verify.args.record_decay;
      args.accepted = memory.indices({static_cast<std::int32_t>(accepted), 0}, {kSeqs});
      CommitOptions options;
      options.num_householder = n;
      run_commit(args, options);
      const LinearCall shorter = first_tokens(original, accepted, memory);
      run(shorter);
      for (std::int64_t j = 0; j < kStateSize; ++j) {
        ASSERT_NEAR(state_of(args.state_pool, 3)[j], state_of(shorter.args.state_pool, 3)[j], 2e-6)
            << "accepted " << accepted;
      }
      EXPECT_TRUE(same_state(state_of(args.state_pool, 8), state_of(original.args.state_pool, 8)));
    }
  }
}

TEST(LinearReference, CommitForgetsExactly) {
  Memory memory;
  CommitArgs args;
  args.state_pool = memory.filled({kSlots, 4, 16, 8}, INFINITY, INFINITY);
  args.state_indices = memory.indices({3, -1}, {kSeqs});
  args.record_k = memory.filled({kSeqs, 1, 2, 8}, 1, 1);
  args.record_d = memory.filled({kSeqs, 1, 4, 16}, 2, 2);
  args.record_decay = memory.filled({kSeqs, 1, 4}, -INFINITY, -INFINITY);
  args.accepted = memory.indices({1, 1}, {kSeqs});
  run_commit(args, {});
  EXPECT_EQ(state_of(args.state_pool, 3)[17], 2.0f);
  EXPECT_EQ(state_of(args.state_pool, 2)[17], INFINITY);
}

TEST(LinearReference, SkippedSequencesWriteOnlyZeroOutput) {
  Memory memory;
  LinearCall call = random_call(DeltaRule::kGatedDeltaRule, memory);
  call.args.state_indices = memory.indices({-1, 8}, {kSeqs});
  call.args.output_state_indices = memory.indices({0, -1}, {kSeqs});
  call.args.o = memory.filled({kSeqs, kTokens, 4, 16}, 9, 9);
  call.args.record_k = memory.filled({kSeqs, kTokens, 2, 8}, 9, 9);
  call.args.record_d = memory.filled({kSeqs, kTokens, 4, 16}, 9, 9);
  call.args.record_decay = memory.filled({kSeqs, kTokens, 4}, 9, 9);
  const TensorView before = memory.copy(call.args.state_pool);
  run(call);
  EXPECT_TRUE(same_bits(call.args.state_pool, before));
  EXPECT_EQ(state_of(call.args.o, 0)[11], 0.0f);
  EXPECT_NE(state_of(call.args.o, 1)[11], 0.0f);
  EXPECT_EQ(state_of(call.args.record_k, 0)[3], 9.0f);
  EXPECT_EQ(state_of(call.args.record_d, 0)[3], 9.0f);
  EXPECT_EQ(state_of(call.args.record_decay, 0)[3], 9.0f);
  EXPECT_NE(state_of(call.args.record_d, 1)[3], 9.0f);
}

TEST(LinearReference, TwoRunsAreOneLongRun) {
  for (DeltaRule rule :
       {DeltaRule::kGatedDeltaRule, DeltaRule::kGatedDeltaProduct, DeltaRule::kKda}) {
    Memory memory;
    const LinearCall whole = random_call(rule, memory);
    const LinearCall head = first_tokens(whole, 2, memory);
    LinearCall tail = tokens_from(whole, 2, memory);
    run(head);
    tail.args.state_pool = head.args.state_pool;
    run(tail);
    run(whole);
    for (std::int64_t j = 0; j < kStateSize; ++j) {
      ASSERT_NEAR(state_of(tail.args.state_pool, 8)[j], state_of(whole.args.state_pool, 8)[j],
                  1e-6);
    }
  }
}

TEST(LinearReference, ContextParallelIsRejectedByName) {
  LinearCall call = gdn_call();
  call.options.use_cp = UseCp::kTrue;
  const Operation op = problem_of(call);
  const std::optional<std::string> reason = reference_linear_candidates()[0].reject(op, {});
  ASSERT_TRUE(reason.has_value());
  EXPECT_EQ(*reason,
            "use_cp must be \"auto\" or False, got True: the reference walks a sequence in one "
            "piece");
}

// A state that no memory holds: the error of the standard library must come back as a status.
TEST(LinearReference, NoMemoryIsAStatus) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 30;
  Result<Context> context = Context::create();
  ASSERT_TRUE(context.ok());
  float unread = 0.0f;
  DeltaRuleArgs args;
  args.q = fp32({1, 1, kHuge});
  args.q.data = &unread;
  args.k = args.v = args.o = args.q;
  DeltaRuleOptions options;
  options.backend = Backend::kReference;
  const Status status = chunk_gated_delta_rule(*context, args, options);
  EXPECT_EQ(status.code(), StatusCode::kOutOfWorkspace) << status.to_string();
  EXPECT_NE(status.message().find("reference.delta_rule must be allocatable"), std::string::npos)
      << status.message();
}

}  // namespace
}  // namespace tilegate
