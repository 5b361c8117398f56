// SPDX-License-Identifier: Apache-2.0
// The planner over candidates made up for the test: it takes the cheapest that does not reject,
// keeps every rejection, and is deterministic.
#include "plan/planner.h"

#include <gtest/gtest.h>

#include <array>

namespace tilegate {
namespace {

std::optional<std::string> accepts(const Operation&, const DeviceFacts&) { return std::nullopt; }
std::optional<std::string> rejects(const Operation&, const DeviceFacts&) {
  return "head_dim must be 128, got 8";
}
std::optional<std::string> is_for_another(const Operation&, const DeviceFacts&) {
  return std::string(kOtherOperation);
}
double cheap(const Operation&, const DeviceFacts&) { return 1.0; }
double dear(const Operation&, const DeviceFacts&) { return 1000.0; }
double preferred(const Operation&, const DeviceFacts&) { return kPreferredUs; }
double last(const Operation&, const DeviceFacts&) { return kLastResortUs; }
Schedule plain(const Operation&, const DeviceFacts&) {
  return {.workspace_bytes = 512, .note = "in one piece"};
}
Schedule free_bits(const Operation&, const DeviceFacts&) {
  return {.pinned_bits = false, .note = {}};
}
Status nothing(const Launch&) { return {}; }

constexpr Candidate kCheap = {"cpu.cheap", Backend::kCpu, accepts, cheap, plain, nothing};
constexpr Candidate kTwin = {"cpu.twin", Backend::kCpu, accepts, cheap, free_bits, nothing};
constexpr Candidate kDear = {"reference.dear", Backend::kReference, accepts, dear, plain, nothing};
constexpr Candidate kPicky = {"cpu.picky", Backend::kCpu, rejects, cheap, plain, nothing};
constexpr Candidate kGpu = {"cuda.fast", Backend::kCuda, accepts, cheap, plain, nothing};
constexpr Candidate kOther = {"cpu.other", Backend::kCpu, is_for_another, cheap, plain, nothing};

std::shared_ptr<const ProblemData> problem(Backend backend = Backend::kAuto) {
  auto data = std::make_shared<ProblemData>();
  MergeProblem merge;
  merge.backend = backend;
  data->op = merge;
  return data;
}

Result<std::shared_ptr<const PlanData>> plan_of(std::vector<const Candidate*> candidates,
                                                Backend backend = Backend::kAuto) {
  return make_plan(problem(backend), DeviceFacts{}, candidates);
}

TEST(Planner, TakesTheCheapestWhateverTheOrder) {
  EXPECT_EQ(plan_of({&kDear, &kCheap}).value()->chosen, &kCheap);
  EXPECT_EQ(plan_of({&kCheap, &kDear}).value()->chosen, &kCheap);
}

TEST(Planner, TheEarlierWinsATie) {
  EXPECT_EQ(plan_of({&kCheap, &kTwin}).value()->chosen, &kCheap);
  EXPECT_EQ(plan_of({&kTwin, &kCheap}).value()->chosen, &kTwin);
}

TEST(Planner, ExplainsEveryRejection) {
  const auto plan = plan_of({&kPicky, &kGpu, &kOther, &kDear, &kCheap}).value();
  const std::string text = plan->explain();
  EXPECT_NE(text.find("chosen: cpu.cheap"), std::string::npos) << text;
  EXPECT_NE(text.find("runner-up: reference.dear"), std::string::npos) << text;
  EXPECT_NE(text.find("rejected: cpu.picky: head_dim must be 128, got 8"), std::string::npos)
      << text;
  EXPECT_NE(text.find("rejected: cuda.fast: tensors are on the CPU"), std::string::npos) << text;
  EXPECT_EQ(text.find("cpu.other"), std::string::npos) << "a kernel of another op is no candidate";
  EXPECT_NE(text.find("in one piece"), std::string::npos) << text;
  EXPECT_NE(text.find("workspace: 512 bytes"), std::string::npos) << text;
  EXPECT_NE(text.find("bits: pinned"), std::string::npos) << text;
  EXPECT_NE(plan_of({&kTwin}).value()->explain().find("bits: shape-dependent"), std::string::npos);
}

TEST(Planner, SaysWhenAnOverrideChose) {
  constexpr Candidate kPreferred = {"cpu.preferred", Backend::kCpu, accepts,
                                    preferred,       plain,         nothing};
  const std::string text = plan_of({&kCheap, &kPreferred}).value()->explain();
  EXPECT_NE(text.find("chosen: cpu.preferred (preferred by decode_auto_cudnn"), std::string::npos)
      << text;
}

TEST(Planner, PrintsNoTimeForALastResort) {
  constexpr Candidate kLast = {"reference.last", Backend::kReference, accepts, last, plain,
                               nothing};
  const std::string second = plan_of({&kLast, &kCheap}).value()->explain();
  EXPECT_NE(second.find("chosen: cpu.cheap (1.0 us estimated)\n"), std::string::npos) << second;
  EXPECT_NE(second.find("runner-up: reference.last (last resort)\n"), std::string::npos) << second;
  const std::string only = plan_of({&kLast}).value()->explain();
  EXPECT_NE(only.find("chosen: reference.last (last resort)\n"), std::string::npos) << only;
}

TEST(Planner, IsDeterministic) {
  const std::vector<const Candidate*> all = {&kPicky, &kGpu, &kDear, &kTwin, &kCheap};
  const std::string first = plan_of(all).value()->explain();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(plan_of(all).value()->explain(), first);
}

TEST(Planner, AnExplicitBackendNeverFallsBack) {
  EXPECT_EQ(plan_of({&kCheap, &kDear}, Backend::kReference).value()->chosen, &kDear);
  const Status status = plan_of({&kDear, &kPicky}, Backend::kCpu).status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_NE(status.message().find("cpu.picky: head_dim must be 128, got 8"), std::string::npos)
      << status.message();
}

TEST(Planner, ListsAllReasonsWhenNobodyServes) {
  const Status status = plan_of({&kPicky, &kGpu}).status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_NE(status.message().find("cpu.picky: head_dim"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("cuda.fast: tensors are on the CPU"), std::string::npos)
      << status.message();
  EXPECT_EQ(plan_of({}).status().code(), StatusCode::kUnsupported);
  EXPECT_FALSE(plan_of({}).status().message().empty());
}

}  // namespace
}  // namespace tilegate
