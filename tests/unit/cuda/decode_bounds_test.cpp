// SPDX-License-Identifier: Apache-2.0
// Decode at the ends of what options and page tables may say: CSR tables whose pool stands in for a
// maximum, and lengths near the largest number.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string_view>

#include "api/registry.h"
#include "plan/planner.h"
#include "tests/unit/cudnn/call.h"

namespace tilegate::test {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

class DecodeBounds : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_built("cuda.decode")) GTEST_SKIP() << "the build has no CUDA";
  }

  static bool is_built(std::string_view name) {
    const auto& all = all_candidates();
    return std::any_of(all.begin(), all.end(), [&](const auto* c) { return c->name == name; });
  }
  static std::shared_ptr<const PlanData> plan_of(const DecodePagedArgs& args,
                                                 const AttentionOptions& options) {
    return make_plan(describe(args, options).value().shared(), h200(), all_candidates()).value();
  }
  static std::shared_ptr<const PlanData> plan_of(const CallShape& shape) {
    return plan_of(decode_args(shape), shape.options);
  }
  // 0: rejected, or not built.
  static double estimate(const PlanData& plan, std::string_view name) {
    for (const Verdict& verdict : plan.verdicts) {
      if (verdict.candidate->name == name && verdict.rejection.empty()) return verdict.cost_us;
    }
    return 0.0;
  }
};

DecodePagedArgs csr_args(const CallShape& s) {
  DecodePagedArgs args = decode_args(s);
  args.table = {};
  args.table.kv_indptr = absent_data(DType::kInt32, {s.batch + 1});
  args.table.kv_indices = absent_data(DType::kInt32, {s.batch * s.keys / s.page_size});
  args.table.kv_last_page_len = absent_data(DType::kInt32, {s.batch});
  return args;
}

CallShape many(std::int64_t batch, std::int64_t keys) {
  return {.batch = batch, .rows = 1, .keys = keys, .heads_q = 32, .heads_kv = 8};
}

// Any one request may own the whole pool, but not all of them at once.
TEST_F(DecodeBounds, UndeclaredMaximaOfLargeBatchesAreServed) {
  for (const CallShape& shape : {many(256, 1024), many(4096, 3008), many(12500, 1008)}) {
    SCOPED_TRACE(shape.batch);
    const auto csr = plan_of(csr_args(shape), {});
    const auto dense = plan_of(shape);
    EXPECT_EQ(csr->chosen->name, "cuda.decode");
    for (const char* name : {"cuda.decode", "cudnn.decode"}) {
      if (!is_built(name)) continue;
      EXPECT_NEAR(estimate(*csr, name) / estimate(*dense, name), 1.0, 0.01) << name;
    }
  }
}

TEST_F(DecodeBounds, DeclaredMaximaAboveTheMeanCostTheMean) {
  AttentionOptions options;
  options.max_kv_len = 8192;
  const auto csr = plan_of(csr_args(many(64, 1024)), options);
  const auto dense = plan_of(many(64, 1024));
  EXPECT_NEAR(estimate(*csr, "cuda.decode") / estimate(*dense, "cuda.decode"), 1.0, 0.01);
}

TEST_F(DecodeBounds, TooManyTilesAreRefused) {
  AttentionOptions options;
  options.backend = Backend::kCuda;
  options.max_kv_len = std::int64_t{1} << 30;
  const auto problem = describe(decode_args(many(64, 1024)), options).value();
  const auto none = make_plan(problem.shared(), h200(), all_candidates());
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.status().message().find("must be at most 2147483647 tiles"), std::string::npos)
      << none.status().message();
}

TEST_F(DecodeBounds, HugeWindowsAreNone) {
  const CallShape shape = many(16, 4096);
  const auto unlimited = plan_of(shape);
  for (const std::int64_t window : {kMost, kMost - 1, std::int64_t{1} << 40}) {
    CallShape windowed = shape;
    windowed.options.window_left = window;
    const auto plan = plan_of(windowed);
    EXPECT_EQ(plan->chosen->name, "cuda.decode");
    EXPECT_EQ(estimate(*plan, "cuda.decode"), estimate(*unlimited, "cuda.decode")) << window;
  }
}

// A call without requests costs no more than one.
TEST_F(DecodeBounds, NoRequestsHaveAFiniteCost) {
  for (const CallShape& shape : {many(0, 1024), many(1, 0)}) {
    const auto plan = plan_of(shape);
    EXPECT_GT(estimate(*plan, "cuda.decode"), 0.0);
    EXPECT_LE(estimate(*plan, "cuda.decode"), estimate(*plan_of(many(1, 1024)), "cuda.decode"));
  }
}

}  // namespace
}  // namespace tilegate::test
