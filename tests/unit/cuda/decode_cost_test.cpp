// SPDX-License-Identifier: Apache-2.0
// The estimates that choose between the native decode kernel and cuDNN, against times of one H200
// (docs/results/decode_h200.md, cold, as the estimates are of keys that no cache holds, and
// docs/results/cudnn_h200.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

#include "api/registry.h"
#include "plan/planner.h"
#include "tests/unit/cudnn/call.h"

namespace tilegate::test {
namespace {

struct Measured {
  std::int64_t batch, keys, heads_q, heads_kv;
  double cuda_us, cudnn_us;
};

constexpr Measured kMeasured[] = {
    {1, 8192, 32, 8, 14.89, 16.66},     {1, 131072, 32, 8, 128.97, 135.31},
    {16, 4096, 32, 8, 65.54, 72.49},    {64, 4096, 32, 8, 252.48, 254.90},
    {256, 1024, 32, 8, 255.70, 257.41}, {64, 4096, 64, 8, 255.40, 256.02},
    {32, 8192, 12, 4, 126.72, 135.19},  {128, 8192, 8, 1, 128.66, 136.33},
};

std::shared_ptr<const PlanData> plan_of(const Measured& m) {
  const CallShape shape{
      .batch = m.batch, .rows = 1, .keys = m.keys, .heads_q = m.heads_q, .heads_kv = m.heads_kv};
  const Problem problem = describe(decode_args(shape), AttentionOptions{}).value();
  return make_plan(problem.shared(), h200(), all_candidates()).value();
}

bool is_built(std::string_view name) {
  const auto& all = all_candidates();
  return std::any_of(all.begin(), all.end(), [&](const auto* c) { return c->name == name; });
}

// 0: rejected.
double estimate(const PlanData& plan, std::string_view name) {
  for (const Verdict& verdict : plan.verdicts) {
    if (verdict.candidate->name == name && verdict.rejection.empty()) return verdict.cost_us;
  }
  return 0.0;
}

TEST(DecodeCost, IsCloseToMeasuredAndChoosesTheFaster) {
  constexpr double kCudaError = 0.03;
  constexpr double kCudnnError = 0.04;  // 3 % of it: what cuDNN must win by
  if (!is_built("cuda.decode")) GTEST_SKIP() << "the build has no CUDA";
  for (const Measured& m : kMeasured) {
    SCOPED_TRACE(testing::Message()
                 << "b" << m.batch << " kv" << m.keys << " " << m.heads_q << "/" << m.heads_kv);
    const auto plan = plan_of(m);
    EXPECT_EQ(plan->chosen->name, "cuda.decode");
    EXPECT_NEAR(estimate(*plan, "cuda.decode") / m.cuda_us, 1.0, kCudaError);
    if (!is_built("cudnn.decode")) continue;
    EXPECT_NEAR(estimate(*plan, "cudnn.decode") / m.cudnn_us, 1.0, kCudnnError);
  }
}

}  // namespace
}  // namespace tilegate::test
