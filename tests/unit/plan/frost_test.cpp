// SPDX-License-Identifier: Apache-2.0
// The rule of the FROST engine: which shapes it takes, and how explain() speaks of it.
#include "plan/frost.h"

#include <gtest/gtest.h>

#include "tests/unit/cudnn/call.h"

namespace tilegate {
namespace {

using namespace tilegate::test;

// Group 8, 4 rows: 32 rows a KV head; 16 requests of 4 KV heads.
CallShape inside() { return {.batch = 16, .rows = 4, .heads_q = 32, .heads_kv = 4}; }

void expect_outside(const CallShape& shape, const std::string& why) {
  const auto reason = outside_frost_rule(decode_problem(shape));
  ASSERT_TRUE(reason.has_value()) << why;
  EXPECT_NE(reason->find(why), std::string::npos) << *reason;
}

TEST(Frost, TakesTheShapesOfItsRule) {
  EXPECT_EQ(outside_frost_rule(decode_problem(inside())), std::nullopt);
  CallShape shape = inside();
  shape.rows = 1;
  expect_outside(shape, "q_len_per_req");
  shape = inside();
  shape.dim = 64;
  expect_outside(shape, "head_dim");
  shape = inside();
  shape.options.window_left = 7;
  expect_outside(shape, "window");
  shape = inside();
  shape.page_size = 4;
  expect_outside(shape, "page sizes");
  shape = inside();
  shape.heads_q = 12;
  expect_outside(shape, "groups");
  shape = inside();
  shape.heads_q = 16;
  expect_outside(shape, "rows of a KV head");
  shape = inside();
  shape.batch = 15;
  expect_outside(shape, "pairs");
}

TEST(Frost, NoteIsForDecodeOnAGpu) {
  const Operation decode = decode_problem(inside());
  EXPECT_NE(frost_note(decode, h200()).find("would choose it on sm_100"), std::string::npos);
  EXPECT_EQ(frost_note(decode, DeviceFacts{}), "");
  EXPECT_EQ(frost_note(Operation(dense_problem({})), h200()), "");
}

}  // namespace
}  // namespace tilegate
