// SPDX-License-Identifier: Apache-2.0
// Laws of stable bits for every operation: the same call twice, any number of CPU threads, a second
// context, the one-shot call and the three-step call all give the same bytes.
#include <thread>

#include "tests/op/calls/attention_call.h"
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
    second->set_backend(backend());
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

// describe and plan take pointers that nobody may follow.
TEST_P(StableBits, PlanningFollowsNoPointer) {
  AttentionCall call = as_decode(make_ragged({.qo_lens = {5, 5}, .kv_lens = {5, 17}}));
  const auto plan = make_plan(call);
  if (plan == nullptr) return;
  auto args = std::get<tilegate::DecodePagedArgs>(call.args());
  const tilegate::Device device = args.q.device;
  for (tilegate::TensorView* view :
       {&args.q, &args.k_cache, &args.v_cache, &args.o, &args.lse, &args.table.kv_indptr,
        &args.table.kv_indices, &args.table.kv_last_page_len}) {
    view->data = reinterpret_cast<void*>(std::uintptr_t{256});
    view->device = device;
  }
  const auto problem = tilegate::describe(args, call.options);
  ASSERT_TRUE(problem.ok()) << problem.status().to_string();
  const auto again = tilegate::plan(*problem, context());
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  EXPECT_EQ(again->explain(), plan->explain());
}

// Nothing is shared between contexts: two at once give the bits of one.
TEST_P(StableBits, TwoContextsAtOnce) {
  if (!on_cpu_device()) GTEST_SKIP() << "the harness moves tensors from one thread";
  for (const CatalogEntry& entry : catalog()) {
    const auto alone = entry.make();
    if (!run(*alone)) continue;
    std::unique_ptr<Call> calls[2] = {entry.make(), entry.make()};
    tilegate::Status status[2];
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
      calls[i]->set_backend(backend());
      threads.emplace_back([&, i] {
        tilegate::Context own = tilegate::Context::create({.device = {}, .num_threads = 2}).value();
        const auto problem = calls[i]->describe();
        const auto plan = tilegate::plan(*problem, own);
        std::vector<std::byte> storage(plan->workspace_bytes() + 256);
        void* start = storage.data();
        std::size_t space = storage.size();
        std::align(256, plan->workspace_bytes(), start, space);
        status[i] = plan->run(own, calls[i]->args(), {start, plan->workspace_bytes()});
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(status[i].ok()) << entry.name << ": " << status[i].to_string();
      expect_same_outputs(*alone, *calls[i], entry.name + ", two contexts at once");
    }
  }
}

TEST_P(StableBits, NothingIsPrinted) {
  for (const CatalogEntry& entry : catalog()) {
    const auto call = entry.make();
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    run(*call);
    EXPECT_EQ(::testing::internal::GetCapturedStdout(), "") << entry.name;
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "") << entry.name;
  }
}

LAWS_ON_EVERY_BACKEND(StableBits);

}  // namespace
}  // namespace laws
