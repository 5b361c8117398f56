// SPDX-License-Identifier: Apache-2.0
// Law: the CPU delta rule gives the same bits for any number of threads. With one (sequence, head)
// pair the threads share the columns of V, with many they share the pairs, and with segments the
// tokens. K = 32, V = 136 (not a multiple of a panel).
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "backend/cpu/candidates.h"
#include "tests/unit/linear/call.h"

namespace tilegate {
namespace {

constexpr std::int64_t kDimK = 32;
constexpr std::int64_t kDimV = 136;

// Owns the tensors of a call in fp32.
struct Memory {
  std::vector<std::vector<float>> floats;
  std::vector<std::int32_t> offsets;
  std::mt19937 random{3};

  TensorView filled(std::initializer_list<std::int64_t> shape, float low, float high) {
    TensorView view = fp32(shape);
    std::vector<float>& values = floats.emplace_back(static_cast<std::size_t>(view.numel()));
    std::uniform_real_distribution<float> uniform(low, high);
    for (float& x : values) x = uniform(random);
    view.data = values.data();
    return view;
  }
};

struct Shape {
  DeltaRule rule = DeltaRule::kGatedDeltaRule;
  std::vector<std::int32_t> offsets;
  std::int64_t heads = 1;  // of v and the states
  std::int64_t heads_qk = 1;
  UseCp use_cp = UseCp::kAuto;
};

LinearCall make_call(const Shape& shape, Memory& memory) {
  const bool channel = shape.rule == DeltaRule::kKda;
  const std::int64_t tokens = shape.offsets.back();
  const std::int64_t heads = shape.heads;
  const auto seqs = static_cast<std::int64_t>(shape.offsets.size()) - 1;
  memory.floats.reserve(16);
  memory.offsets = shape.offsets;
  LinearCall call;
  call.rule = shape.rule;
  call.options.use_qk_l2norm = true;
  call.options.output_final_state = true;
  call.options.use_cp = shape.use_cp;
  call.args.q = memory.filled({tokens, shape.heads_qk, kDimK}, -1.0f, 1.0f);
  call.args.k = memory.filled({tokens, shape.heads_qk, kDimK}, -1.0f, 1.0f);
  call.args.v = memory.filled({tokens, heads, kDimV}, -1.0f, 1.0f);
  if (channel) call.args.g = memory.filled({tokens, heads, kDimK}, -0.2f, 0.0f);
  if (!channel) call.args.g = memory.filled({tokens, heads}, 0.8f, 1.0f);
  call.args.beta = memory.filled({tokens, heads}, 0.0f, 1.0f);
  call.args.initial_state = memory.filled({seqs, heads, kDimV, kDimK}, -1.0f, 1.0f);
  call.args.output_state = memory.filled({seqs, heads, kDimV, kDimK}, 0.0f, 0.0f);
  call.args.o = memory.filled({tokens, heads, kDimV}, 0.0f, 0.0f);
  call.args.cu_seqlens = int32({seqs + 1});
  call.args.cu_seqlens.data = memory.offsets.data();
  return call;
}

// The bits of outputs and final states with this many threads.
std::vector<float> run(const Shape& shape, int num_threads) {
  Memory memory;
  const LinearCall call = make_call(shape, memory);
  const Operation op = problem_of(call);
  Resources resources(num_threads);
  DeviceFacts facts;
  facts.num_threads = num_threads;
  const Candidate& chunk = cpu_linear_candidates().front();
  EXPECT_EQ(chunk.reject(op, facts), std::nullopt);
  const Schedule schedule = chunk.schedule(op, facts);
  std::vector<std::byte> workspace(schedule.workspace_bytes + 256);
  const auto address = reinterpret_cast<std::uintptr_t>(workspace.data());
  const Status status = chunk.launch({.call = op,
                                      .schedule = schedule,
                                      .facts = facts,
                                      .resources = resources,
                                      .workspace = workspace.data() + (256 - address % 256) % 256});
  EXPECT_TRUE(status.ok()) << status.message();
  std::vector<float> result;
  for (const TensorView& view : {call.args.o, call.args.output_state}) {
    const auto* data = static_cast<const float*>(view.data);
    result.insert(result.end(), data, data + view.numel());
  }
  return result;
}

void expect_thread_invariance(const Shape& shape) {
  const std::vector<float> one = run(shape, 1);
  EXPECT_NE(one.front(), 0.0f);
  for (const int threads : {2, 3, 8}) {
    const std::vector<float> many = run(shape, threads);
    EXPECT_EQ(std::memcmp(one.data(), many.data(), one.size() * sizeof(float)), 0)
        << threads << " threads";
  }
}

TEST(CpuLinearThreads, OnePairSharesItsColumns) {
  expect_thread_invariance({.offsets = {0, 150}});
  expect_thread_invariance({.rule = DeltaRule::kKda, .offsets = {0, 150}});
}

// One thread walks four heads side by side, of which two share their keys; eight walk one each.
TEST(CpuLinearThreads, ManyPairs) {
  for (const DeltaRule rule : {DeltaRule::kGatedDeltaRule, DeltaRule::kKda}) {
    expect_thread_invariance(
        {.rule = rule, .offsets = {0, 1, 1, 70, 300}, .heads = 8, .heads_qk = 4});
  }
}

TEST(CpuLinearThreads, Segments) {
  expect_thread_invariance({.offsets = {0, 1700, 1800}, .use_cp = UseCp::kTrue});
  expect_thread_invariance(
      {.rule = DeltaRule::kKda, .offsets = {0, 1700, 1800}, .use_cp = UseCp::kTrue});
}

}  // namespace
}  // namespace tilegate
