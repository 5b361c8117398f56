// SPDX-License-Identifier: Apache-2.0
// Value checks of delta-rule calls: offsets, lengths, slots, writers, checkpoint rows, counts.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/unit/linear/call.h"

namespace tilegate {
namespace {

// Index tensors of a call with 2 sequences in 20 tokens, on a pool of 7 slots.
struct Values {
  std::vector<std::int32_t> cu_seqlens{0, 5, 10};
  std::vector<std::int32_t> state_indices{3, 1};
  std::vector<std::int32_t> output_state_indices{};  // empty: absent
  std::vector<std::int32_t> state_slots{};           // [2, 6]
  std::vector<std::int32_t> num_accepted{};
  std::vector<std::int32_t> checkpoint_cu_starts{};
  std::vector<std::int32_t> checkpoint_state_indices{};
  std::vector<std::uint8_t> has_initial{};
  std::int64_t max_seqlen = 0;
  std::int64_t checkpoints_at = -1;  // pool row of the first checkpoint row; -1: memory of its own
};

void attach(TensorView& view, std::vector<std::int32_t>& values,
            std::initializer_list<std::int64_t> shape) {
  if (!values.empty()) view = TensorView::packed(values.data(), DType::kInt32, shape);
}

std::string check(Values values) {
  LinearCall call = pool_call();
  std::vector<std::uint16_t> pool(7 * 4 * 16 * 8);  // never read: only its address matters
  const auto n = static_cast<std::int64_t>(values.cu_seqlens.size()) - 1;
  attach(call.args.cu_seqlens, values.cu_seqlens, {n + 1});
  attach(call.args.state_indices, values.state_indices, {n});
  attach(call.args.output_state_indices, values.output_state_indices, {n});
  attach(call.args.state_slots, values.state_slots, {n, 6});
  attach(call.args.num_accepted_tokens, values.num_accepted, {n});
  call.args.state_pool.data = pool.data();
  call.options.max_seqlen = values.state_slots.empty() ? values.max_seqlen : 6;
  if (!values.has_initial.empty()) {
    call.args.has_initial_state = TensorView::packed(values.has_initial.data(), DType::kUInt8, {n});
  }
  if (!values.checkpoint_cu_starts.empty()) {
    call.options.checkpoint_every_n_tokens = 16;
    call.options.checkpoint_position = CheckpointPosition::kBefore;
    call.args.state_checkpoints = fp32({4, 4, 16, 8});
    if (values.checkpoints_at >= 0) {
      call.args.state_checkpoints = bf16({4, 4, 16, 8});
      call.args.state_checkpoints.data = pool.data() + values.checkpoints_at * 4 * 16 * 8;
    }
    attach(call.args.checkpoint_cu_starts, values.checkpoint_cu_starts,
           {static_cast<std::int64_t>(values.checkpoint_cu_starts.size())});
    attach(call.args.checkpoint_state_indices, values.checkpoint_state_indices,
           {static_cast<std::int64_t>(values.checkpoint_state_indices.size())});
  }
  const Result<Operation> op = normalise_linear(call.rule, call.args, call.options);
  if (!op.ok()) return op.status().message();
  const Status status = check_linear_values(std::get<LinearProblem>(*op));
  return status.ok() ? "ok" : status.message();
}

TEST(LinearValues, AcceptsEmptySequencesAndAnUnusedTail) {
  EXPECT_EQ(check({}), "ok");
  EXPECT_EQ(check({.cu_seqlens = {0, 0, 0}}), "ok");
  EXPECT_EQ(check({.cu_seqlens = {0, 0, 20}}), "ok");
  EXPECT_EQ(check({.max_seqlen = 5}), "ok");
}

TEST(LinearValues, RejectsOffsets) {
  EXPECT_EQ(check({.cu_seqlens = {1, 5, 10}}), "cu_seqlens must start at 0, got 1");
  EXPECT_EQ(check({.cu_seqlens = {0, 5, 4}}),
            "cu_seqlens must not decrease, got 4 after 5 at entry 2");
  EXPECT_EQ(check({.cu_seqlens = {0, 5, 21}}),
            "cu_seqlens must end within the 20 tokens of q, got 21 at entry 2");
  EXPECT_EQ(check({.cu_seqlens = {0, 5, 11}, .max_seqlen = 5}),
            "max_seqlen must be at least the 6 tokens of sequence 1, got 5");
}

TEST(LinearValues, SlotsMayBeNegativeButNotPastThePool) {
  EXPECT_EQ(check({.state_indices = {-1, -5}}), "ok");
  EXPECT_EQ(check({.state_indices = {3, 7}}),
            "state_indices must name one of 7 rows, got 7 at entry 1");
  EXPECT_EQ(check({.output_state_indices = {-1, -1}}), "ok");
  EXPECT_EQ(check({.output_state_indices = {7, 1}}),
            "output_state_indices must name one of 7 rows, got 7 at entry 0");
  // A skipped sequence writes nothing, wherever its write index points.
  EXPECT_EQ(check({.state_indices = {-1, 1}, .output_state_indices = {9, 1}}), "ok");
}

TEST(LinearValues, EveryRowHasOneWriter) {
  EXPECT_EQ(check({.state_indices = {3, 3}}),
            "state_indices must be written by one sequence once, got row 3 for sequences 0 and 1");
  EXPECT_EQ(check({.output_state_indices = {4, 4}}),
            "output_state_indices must be written by one sequence once, got row 4 for sequences 0 "
            "and 1");
  EXPECT_EQ(check({.state_indices = {3, 3}, .output_state_indices = {4, 5}}), "ok");
}

TEST(LinearValues, NoRowIsReadAndWrittenByDifferentSequences) {
  EXPECT_EQ(check({.state_indices = {3, 1}, .output_state_indices = {1, 2}}),
            "output_state_indices must not name a row that another sequence reads in place, got "
            "row 1, written by sequence 0 and read by sequence 1");
  // A sequence that starts from zero does not read its row.
  EXPECT_EQ(check({.state_indices = {3, 1}, .output_state_indices = {1, 2}, .has_initial = {1, 0}}),
            "ok");
}

TEST(LinearValues, SlotsOfTokensAreInRangeAndUnique) {
  const std::vector<std::int32_t> apart = {0, 2, 4, -1, -1, 99, 5, 6, -1, -1, -1, 99};
  EXPECT_EQ(check({.state_slots = apart}), "ok");  // column 5 is past both sequences
  EXPECT_EQ(check({.state_slots = {0, 2, 4, 7, -1, -1, 5, 6, -1, -1, -1, -1}}),
            "state_slots must name one of 7 rows, got 7 at entry 3");
  EXPECT_EQ(check({.state_slots = {0, 2, 4, -1, -1, -1, 5, 4, -1, -1, -1, -1}}),
            "state_slots must be written by one sequence once, got row 4 for sequences 0 and 1");
  EXPECT_EQ(check({.output_state_indices = {-1, 2}, .state_slots = apart}),
            "output_state_indices must be written by one sequence once, got row 2 for sequences 0 "
            "and 1");
  EXPECT_EQ(check({.state_slots = {0, 2, 1, -1, -1, -1, 5, 6, -1, -1, -1, -1}}),
            "state_slots must not name a row that another sequence reads in place, got row 1, "
            "written by sequence 0 and read by sequence 1");
}

TEST(LinearValues, AcceptedCountsNameAColumn) {
  const std::vector<std::int32_t> slots = {0, 2, -1, -1, -1, 3, 5, 6, -1, -1, -1, 1};
  EXPECT_EQ(check({.state_slots = slots, .num_accepted = {0, 6}}), "ok");
  EXPECT_EQ(check({.state_slots = slots, .num_accepted = {-1, 2}}),
            "num_accepted_tokens must be 0..6, got -1 at entry 0");
  EXPECT_EQ(check({.state_slots = slots, .num_accepted = {1, 7}}),
            "num_accepted_tokens must be 0..6, got 7 at entry 1");
  // Column 5 is not written by 5 tokens, but it is read.
  EXPECT_EQ(
      check({.state_slots = {0, 2, -1, -1, -1, 9, 5, 6, -1, -1, -1, 1}, .num_accepted = {6, 1}}),
      "state_slots must name one of 7 rows, got 9 at entry 0");
}

TEST(LinearValues, CheckpointsInThePoolHaveRowsOfTheirOwn) {
  const std::vector<std::int32_t> lens = {0, 17, 20};  // 2 rows and 1 row
  Values values{.cu_seqlens = lens, .checkpoint_cu_starts = {0, 2, 3}};
  values.state_indices = {6, 1};
  values.checkpoints_at = 2;  // pool rows 2, 3 and 4
  EXPECT_EQ(check(values), "ok");
  values.state_indices = {6, 3};
  EXPECT_EQ(
      check(values),
      "checkpoint_cu_starts must not name a row that another sequence reads in place, got row "
      "1, written by sequence 0 and read by sequence 1");
  values.has_initial = {1, 0};
  EXPECT_EQ(check(values),
            "state_indices must be written by one sequence once, got row 3 for sequences 0 and 1");
  values.output_state_indices = {-1, 0};
  EXPECT_EQ(check(values), "ok");
}

TEST(LinearValues, CheckpointRowsAreInRangeAndUnique) {
  const std::vector<std::int32_t> lens = {0, 17, 20};  // 2 rows and 1 row
  EXPECT_EQ(check({.cu_seqlens = lens, .checkpoint_cu_starts = {0, 2, 3}}), "ok");
  EXPECT_EQ(check({.cu_seqlens = lens, .checkpoint_cu_starts = {2, 0}}), "ok");
  EXPECT_EQ(check({.cu_seqlens = lens, .checkpoint_cu_starts = {0, 1, 3}}),
            "checkpoint_cu_starts must leave room for the 2 checkpoints of sequence 0 below row 1, "
            "got 0");
  EXPECT_EQ(check({.cu_seqlens = lens, .checkpoint_cu_starts = {0, 4, 5}}),
            "checkpoint_cu_starts must leave room for the 1 checkpoints of sequence 1 below row 4, "
            "got 4");
  EXPECT_EQ(check({.cu_seqlens = lens, .checkpoint_cu_starts = {-1, 2, 3}}),
            "checkpoint_cu_starts must leave room for the 2 checkpoints of sequence 0 below row 2, "
            "got -1");
  EXPECT_EQ(check({.cu_seqlens = lens, .checkpoint_cu_starts = {0, 1}}),
            "checkpoint_cu_starts must be written by one sequence once, got row 1 for sequences 0 "
            "and 1");
  EXPECT_EQ(check({.cu_seqlens = lens,
                   .checkpoint_cu_starts = {0, 2, 3},
                   .checkpoint_state_indices = {3, -1, 0}}),
            "ok");
  EXPECT_EQ(check({.cu_seqlens = lens,
                   .checkpoint_cu_starts = {0, 2, 3},
                   .checkpoint_state_indices = {3, 4, 0}}),
            "checkpoint_state_indices must name one of 4 rows, got 4 at entry 1");
  EXPECT_EQ(check({.cu_seqlens = lens,
                   .checkpoint_cu_starts = {0, 2, 3},
                   .checkpoint_state_indices = {3, 1, 3}}),
            "checkpoint_state_indices must be written by one sequence once, got row 3 for "
            "sequences 0 and 1");
}

std::string check_commit(std::vector<std::int32_t> indices, std::vector<std::int32_t> accepted) {
  CommitArgs args;
  args.state_pool = fp32({7, 4, 16, 8});
  args.record_k = fp32({2, 6, 2, 8});
  args.record_d = fp32({2, 6, 4, 16});
  args.record_decay = fp32({2, 6, 4});
  attach(args.state_indices, indices, {2});
  attach(args.accepted, accepted, {2});
  const Result<Operation> op = normalise_commit(args, {});
  if (!op.ok()) return op.status().message();
  const Status status = check_commit_values(std::get<CommitProblem>(*op));
  return status.ok() ? "ok" : status.message();
}

TEST(CommitValues, CountsAndSlots) {
  EXPECT_EQ(check_commit({6, 0}, {0, 6}), "ok");
  EXPECT_EQ(check_commit({-1, -1}, {2, 2}), "ok");
  EXPECT_EQ(check_commit({6, 0}, {7, 0}), "accepted must be 0..6, got 7 at entry 0");
  EXPECT_EQ(check_commit({6, 7}, {1, 1}),
            "state_indices must name one of 7 rows, got 7 at entry 1");
  EXPECT_EQ(check_commit({2, 2}, {1, 1}),
            "state_indices must be written by one sequence once, got row 2 for sequences 0 and 1");
}

}  // namespace
}  // namespace tilegate
