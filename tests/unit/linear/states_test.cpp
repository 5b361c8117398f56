// SPDX-License-Identifier: Apache-2.0
// Delta-rule calls: every sentence about states, checkpoints, speculation and commit, and what the
// problem asks to be written.
#include <gtest/gtest.h>

#include "tests/unit/linear/call.h"

namespace tilegate {
namespace {

TEST(LinearStates, FinalStateIsWrittenOnlyWhenAsked) {
  LinearCall call = gdn_call();
  call.args.initial_state = bf16({2, 4, 16, 8});
  call.args.output_state = fp32({2, 4, 16, 8});
  EXPECT_FALSE(problem_of(call).store_final);
  EXPECT_FALSE(problem_of(call).state_out.present());
  call.options.output_final_state = true;
  EXPECT_TRUE(problem_of(call).store_final);
  EXPECT_EQ(problem_of(call).state_out.dtype, DType::kFloat32);
}

TEST(LinearStates, PoolIsWrittenUnlessTheUpdateIsDisabled) {
  LinearCall call = pool_call();
  EXPECT_TRUE(problem_of(call).store_final);
  EXPECT_EQ(problem_of(call).state_out, call.args.state_pool);
  call.args.output_state_pool = fp32({9, 4, 16, 8});
  EXPECT_EQ(problem_of(call).state_out, call.args.output_state_pool);
  call = pool_call();
  call.options.disable_state_update = true;
  EXPECT_FALSE(problem_of(call).store_final);
  EXPECT_FALSE(problem_of(call).state_out.present());
  EXPECT_TRUE(problem_of(call).state_in.present());
  call = pool_call();
  call.options.output_final_state = true;
  EXPECT_EQ(verdict(call), "accepted");
}

TEST(LinearStates, SlotsReplaceTheFinalWriteUnlessItIsNamed) {
  LinearCall call = speculative_call();
  EXPECT_FALSE(problem_of(call).store_final);
  EXPECT_TRUE(problem_of(call).state_out.present());
  call.args.output_state_indices = int32({2});
  EXPECT_TRUE(problem_of(call).store_final);
}

TEST(LinearStates, AcceptsSlotsWithGapsAndPaddedRows) {
  LinearCall call = pool_call();
  call.args.state_pool.strides = {100000, 600, 16, 1};
  EXPECT_EQ(verdict(call), "accepted");
}

TEST(LinearStates, RecordFollowsTheGateOfTheRule) {
  LinearCall call = kda_call();
  call.args.cu_seqlens = {};
  call.options.disable_state_update = true;
  call.args.g = {};
  call.args.record_k = fp32({1, 20, 2, 8});
  call.args.record_d = fp32({1, 20, 4, 16});
  call.args.record_decay = fp32({1, 20, 4, 8});
  EXPECT_EQ(verdict(call), "accepted");
}

TEST(LinearStates, RejectsPoolsOfTheWrongForm) {
  expect_rejections({
      {"initial_state must be absent beside state_pool, got bfloat16 [2, 4, 16, 8]", pool_call,
       [](LinearCall& c) {
         c.args.initial_state = bf16({2, 4, 16, 8});
       }},
      {"output_state must be absent beside state_pool, got bfloat16 [2, 4, 16, 8]", pool_call,
       [](LinearCall& c) {
         c.args.output_state = bf16({2, 4, 16, 8});
       }},
      {"state_pool must have shape [any, 4, 16, 8], got [7, 4, 8, 16]", pool_call,
       [](LinearCall& c) {
         c.args.state_pool = bf16({7, 4, 8, 16});
       }},
      {"state_pool must be float32, float16 or bfloat16, got uint8", pool_call,
       [](LinearCall& c) {
         c.args.state_pool = view_of(DType::kUInt8, {7, 4, 16, 8});
       }},
      {"state_pool must have innermost stride 1, got 2", pool_call,
       [](LinearCall& c) { c.args.state_pool.strides[3] = 2; }},
      {"state_pool must have positive strides, got -512 in dimension 0", pool_call,
       [](LinearCall& c) { c.args.state_pool.strides[0] = -512; }},
      {"state_pool must have at least 2 rows without state_indices, got 1", pool_call,
       [](LinearCall& c) {
         c.args.state_pool = bf16({1, 4, 16, 8});
         c.args.state_indices = {};
       }},
      {"state_indices must have shape [2], got [3]", pool_call,
       [](LinearCall& c) { c.args.state_indices = int32({3}); }},
      {"state_indices must be int32 or int64, got float32", pool_call,
       [](LinearCall& c) { c.args.state_indices = fp32({2}); }},
      {"output_state_indices must have shape [2], got [1]", pool_call,
       [](LinearCall& c) { c.args.output_state_indices = int32({1}); }},
      {"output_state_pool must have shape [any, 4, 16, 8], got [7, 4, 16, 4]", pool_call,
       [](LinearCall& c) {
         c.args.output_state_pool = bf16({7, 4, 16, 4});
       }},
      {"output_state_pool must not overlap itself: stride of dimension 0 must be at least 512, got "
       "500",
       pool_call,
       [](LinearCall& c) {
         c.args.output_state_pool = bf16({7, 4, 16, 8});
         c.args.output_state_pool.strides = {500, 128, 8, 1};
       }},
      {"output_state_pool must be absent with disable_state_update, got bfloat16 [7, 4, 16, 8]",
       pool_call,
       [](LinearCall& c) {
         c.options.disable_state_update = true;
         c.args.output_state_pool = bf16({7, 4, 16, 8});
       }},
      {"output_state_indices must be absent with disable_state_update, got int32 [2]", pool_call,
       [](LinearCall& c) {
         c.options.disable_state_update = true;
         c.args.output_state_indices = int32({2});
       }},
      {"output_final_state must be false with disable_state_update, got true", pool_call,
       [](LinearCall& c) {
         c.options.disable_state_update = true;
         c.options.output_final_state = true;
       }},
  });
}

TEST(LinearStates, RejectsOwnStatesOfTheWrongForm) {
  expect_rejections({
      {"output_state_pool must be absent without state_pool, got float32 [2, 4, 16, 8]", gdn_call,
       [](LinearCall& c) {
         c.args.output_state_pool = fp32({2, 4, 16, 8});
       }},
      {"state_indices must be absent without state_pool, got int32 [2]", gdn_call,
       [](LinearCall& c) { c.args.state_indices = int32({2}); }},
      {"output_state_indices must be absent without state_pool, got int32 [2]", gdn_call,
       [](LinearCall& c) { c.args.output_state_indices = int32({2}); }},
      {"initial_state must have shape [2, 4, 16, 8], got [3, 4, 16, 8]", gdn_call,
       [](LinearCall& c) {
         c.args.initial_state = fp32({3, 4, 16, 8});
       }},
      {"output_state must be given with output_final_state, got none", gdn_call,
       [](LinearCall& c) { c.options.output_final_state = true; }},
      {"output_state must have shape [2, 4, 16, 8], got [2, 2, 16, 8]", gdn_call,
       [](LinearCall& c) {
         c.args.output_state = fp32({2, 2, 16, 8});
       }},
      {"has_initial_state must be absent without initial_state or state_pool, got uint8 [2]",
       gdn_call, [](LinearCall& c) { c.args.has_initial_state = view_of(DType::kUInt8, {2}); }},
      {"has_initial_state must have shape [2], got [4]", pool_call,
       [](LinearCall& c) { c.args.has_initial_state = view_of(DType::kUInt8, {4}); }},
      {"has_initial_state must be uint8 or bool, got int32", pool_call,
       [](LinearCall& c) { c.args.has_initial_state = int32({2}); }},
  });
}

TEST(LinearStates, RejectsCheckpointsOfTheWrongForm) {
  expect_rejections({
      {"checkpoint_every_n_tokens must be a multiple of 16 and at least 0, got 24", checkpoint_call,
       [](LinearCall& c) { c.options.checkpoint_every_n_tokens = 24; }},
      {"checkpoint_every_n_tokens must be a multiple of 16 and at least 0, got -16",
       checkpoint_call, [](LinearCall& c) { c.options.checkpoint_every_n_tokens = -16; }},
      {"state_checkpoints must be absent with checkpoint_every_n_tokens = 0, got bfloat16 [5, 4, "
       "16, 8]",
       checkpoint_call, [](LinearCall& c) { c.options.checkpoint_every_n_tokens = 0; }},
      {"checkpoint_cu_starts must be absent with checkpoint_every_n_tokens = 0, got int32 [3]",
       gdn_call, [](LinearCall& c) { c.args.checkpoint_cu_starts = int32({3}); }},
      {"checkpoint_state_indices must be absent with checkpoint_every_n_tokens = 0, got int32 [3]",
       gdn_call, [](LinearCall& c) { c.args.checkpoint_state_indices = int32({3}); }},
      {"state_checkpoints must be given, got none", checkpoint_call,
       [](LinearCall& c) { c.args.state_checkpoints = {}; }},
      {"state_checkpoints must have shape [any, 4, 16, 8], got [5, 4, 16, 16]", checkpoint_call,
       [](LinearCall& c) {
         c.args.state_checkpoints = fp32({5, 4, 16, 16});
       }},
      {"checkpoint_cu_starts must be given, got none", checkpoint_call,
       [](LinearCall& c) { c.args.checkpoint_cu_starts = {}; }},
      {"checkpoint_cu_starts must have 2 or 3 entries, got 4", checkpoint_call,
       [](LinearCall& c) { c.args.checkpoint_cu_starts = int32({4}); }},
      {"checkpoint_cu_starts must be int32 or int64, got float32", checkpoint_call,
       [](LinearCall& c) { c.args.checkpoint_cu_starts = fp32({2}); }},
      {"checkpoint_state_indices must be int32 or int64, got float32", checkpoint_call,
       [](LinearCall& c) { c.args.checkpoint_state_indices = fp32({9}); }},
  });
}

TEST(LinearStates, RejectsSpeculationOfTheWrongForm) {
  expect_rejections({
      {"num_accepted_tokens must be absent without state_slots, got int32 [2]", pool_call,
       [](LinearCall& c) { c.args.num_accepted_tokens = int32({2}); }},
      {"state_slots must be absent without state_pool, got int32 [2, 20]", gdn_call,
       [](LinearCall& c) {
         c.args.state_slots = int32({2, 20});
       }},
      {"state_slots must be absent with disable_state_update, got int32 [2, 6]", speculative_call,
       [](LinearCall& c) { c.options.disable_state_update = true; }},
      {"state_slots must have shape [2, 6], got [2, 5]", speculative_call,
       [](LinearCall& c) {
         c.args.state_slots = int32({2, 5});
       }},
      {"state_slots must be int32 or int64, got float32", speculative_call,
       [](LinearCall& c) {
         c.args.state_slots = fp32({2, 6});
       }},
      {"num_accepted_tokens must have shape [2], got [1]", speculative_call,
       [](LinearCall& c) { c.args.num_accepted_tokens = int32({1}); }},
      {"num_accepted_tokens must be int32, got int64", speculative_call,
       [](LinearCall& c) { c.args.num_accepted_tokens = view_of(DType::kInt64, {2}); }},
      {"record_k must be given, got none", speculative_call,
       [](LinearCall& c) { c.args.record_k = {}; }},
      {"record_d must have shape [2, 6, 4, 16], got [2, 6, 2, 16]", speculative_call,
       [](LinearCall& c) {
         c.args.record_d = fp32({2, 6, 2, 16});
       }},
      {"record_d must be float32, got bfloat16", speculative_call,
       [](LinearCall& c) {
         c.args.record_d = bf16({2, 6, 4, 16});
       }},
      {"record_decay must have shape [2, 6, 4], got [2, 6, 4, 8]", speculative_call,
       [](LinearCall& c) {
         c.args.record_decay = fp32({2, 6, 4, 8});
       }},
      {"record_k must have positive strides, got 0 in dimension 0", speculative_call,
       [](LinearCall& c) { c.args.record_k.strides[0] = 0; }},
  });
}

CommitArgs commit_args() {
  CommitArgs args;
  args.state_pool = bf16({7, 4, 16, 8});
  args.state_indices = int32({2});
  args.record_k = fp32({2, 6, 2, 8});
  args.record_d = fp32({2, 6, 4, 16});
  args.record_decay = fp32({2, 6, 4});
  args.accepted = int32({2});
  return args;
}

struct CommitRejection {
  std::string sentence;
  std::function<void(CommitArgs&, CommitOptions&)> spoil;
};

TEST(Commit, TakesItsSizesFromPoolAndRecord) {
  CommitArgs args = commit_args();
  const Result<Operation> op = normalise_commit(args, {});
  ASSERT_TRUE(op.ok()) << op.status().message();
  const auto& p = std::get<CommitProblem>(*op);
  EXPECT_EQ(p.num_seqs, 2);
  EXPECT_EQ(p.tokens, 6);
  EXPECT_EQ(p.heads_k, 2);
  EXPECT_EQ(p.heads_o, 4);
  EXPECT_EQ(p.dim_k, 8);
  EXPECT_EQ(p.dim_v, 16);
  EXPECT_FALSE(p.gate_per_channel);
  args.record_decay = fp32({2, 3, 4, 8});
  CommitOptions options;
  options.num_householder = 2;
  const Result<Operation> channel = normalise_commit(args, options);
  ASSERT_TRUE(channel.ok()) << channel.status().message();
  EXPECT_TRUE(std::get<CommitProblem>(*channel).gate_per_channel);
  EXPECT_EQ(std::get<CommitProblem>(*channel).tokens, 3);
}

TEST(Commit, RejectsEveryWrongArgument) {
  const std::vector<CommitRejection> table = {
      {"state_pool must be given, got none",
       [](CommitArgs& a, CommitOptions&) { a.state_pool = {}; }},
      {"state_pool must be float32, float16 or bfloat16, got int32",
       [](CommitArgs& a, CommitOptions&) {
         a.state_pool = int32({7, 4, 16, 8});
       }},
      {"state_pool must have at least one head and head_dim 1, got [7, 0, 16, 8]",
       [](CommitArgs& a, CommitOptions&) {
         a.state_pool = bf16({7, 0, 16, 8});
       }},
      {"record_k must have shape [any, any, any, 8], got [2, 6, 2, 4]",
       [](CommitArgs& a, CommitOptions&) {
         a.record_k = fp32({2, 6, 2, 4});
       }},
      {"record_k must be float32, got bfloat16",
       [](CommitArgs& a, CommitOptions&) {
         a.record_k = bf16({2, 6, 2, 8});
       }},
      {"record_k must have a number of heads that divides state_pool's 4, got 3",
       [](CommitArgs& a, CommitOptions&) {
         a.record_k = fp32({2, 6, 3, 8});
       }},
      {"num_householder must be at least 1 and divide record_k's 6 rows, got 4",
       [](CommitArgs&, CommitOptions& o) { o.num_householder = 4; }},
      {"num_householder must be at least 1 and divide record_k's 6 rows, got 0",
       [](CommitArgs&, CommitOptions& o) { o.num_householder = 0; }},
      {"record_d must have shape [2, 6, 4, 16], got [2, 5, 4, 16]",
       [](CommitArgs& a, CommitOptions&) {
         a.record_d = fp32({2, 5, 4, 16});
       }},
      {"record_decay must have rank 3, got [2, 6]",
       [](CommitArgs& a, CommitOptions&) {
         a.record_decay = fp32({2, 6});
       }},
      {"record_decay must have shape [2, 6, 4, 8], got [2, 6, 4, 4]",
       [](CommitArgs& a, CommitOptions&) {
         a.record_decay = fp32({2, 6, 4, 4});
       }},
      {"state_indices must be given, got none",
       [](CommitArgs& a, CommitOptions&) { a.state_indices = {}; }},
      {"accepted must have shape [2], got [3]",
       [](CommitArgs& a, CommitOptions&) { a.accepted = int32({3}); }},
      {"accepted must be int32 or int64, got float32",
       [](CommitArgs& a, CommitOptions&) { a.accepted = fp32({2}); }},
  };
  for (const CommitRejection& row : table) {
    CommitArgs args = commit_args();
    CommitOptions options;
    row.spoil(args, options);
    const Result<Operation> result = normalise_commit(args, options);
    ASSERT_FALSE(result.ok()) << row.sentence;
    EXPECT_EQ(result.status().to_string(), "invalid_argument: " + row.sentence);
  }
}

}  // namespace
}  // namespace tilegate
