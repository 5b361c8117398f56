// SPDX-License-Identifier: Apache-2.0
// Laws of stable bits for every operation: the same call twice, any number of CPU threads, a second
// context, the one-shot call and the three-step call all give the same bytes.
#include "tests/op/calls/catalog.h"
#include "tests/op/harness/compare.h"
#include "tests/op/harness/law.h"

namespace laws {
namespace {

class StableBits : public Law {};

TEST_P(StableBits, TheSameCallTwice) {
  for (const CatalogEntry& entry : catalog()) {
    const auto first = entry.make(), second = entry.make();
    if (run(*first) && run(*second)) expect_same_outputs(*first, *second, entry.name);
  }
}

TEST_P(StableBits, AnyNumberOfThreads) {
  if (!on_cpu_device()) GTEST_SKIP() << "threads are the CPU's";
  for (const CatalogEntry& entry : catalog()) {
    const auto one = entry.make();
    if (!run(*one, 1)) continue;
    for (const int threads : {2, 3, 0}) {
      const auto many = entry.make();
      if (run(*many, threads)) {
        expect_same_outputs(*one, *many, entry.name + ", threads " + std::to_string(threads));
      }
    }
  }
}

// The workspace need not be cleared: what an earlier run left there changes nothing.
TEST_P(StableBits, APlanThatRunsAgain) {
  for (const CatalogEntry& entry : catalog()) {
    const auto first = entry.make(), second = entry.make();
    const auto plan = make_plan(*first);
    if (plan == nullptr) continue;
    ASSERT_TRUE(run_plan(*plan, *first).ok()) << entry.name;
    second->set_backend(GetParam().backend);
    ASSERT_TRUE(run_plan(*plan, *second).ok()) << entry.name;
    expect_same_outputs(*first, *second, entry.name + ", second run of a plan");
  }
}

TEST_P(StableBits, PlanningIsDeterministicAndReadsNoTensor) {
  for (const CatalogEntry& entry : catalog()) {
    const auto call = entry.make(), other = entry.make();
    const auto plan = make_plan(*call);
    const std::string text = explain();
    const auto again = make_plan(*other);
    if (plan == nullptr || again == nullptr) continue;
    EXPECT_EQ(explain(), text) << entry.name;
    EXPECT_EQ(again->workspace_bytes(), plan->workspace_bytes()) << entry.name;
    const auto untouched = entry.make();
    expect_same_outputs(*untouched, *call, entry.name + ", planned but not run");
  }
}

LAWS_ON_EVERY_BACKEND(StableBits);

}  // namespace
}  // namespace laws
