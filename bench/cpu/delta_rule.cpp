// SPDX-License-Identifier: Apache-2.0
// Times the delta-rule calls on the CPU: prefill of 1 x T tokens, H 4/4/8 heads of 128, bf16, and
// decode of B sequences, for the cpu and reference backends. Prints the best and the median wall
// time of the repetitions, the least processor time of all threads together (what counts on a
// machine that others use), and the rate by wall time: arithmetic of the chunked form, state
// traffic of decode.
//
//   delta_rule_bench [threads] [tokens] [repetitions]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "bench/cpu/tensors.h"
#include "tilegate/tilegate.h"

namespace {

using bench::Free;
using bench::kAlignment;
using bench::Memory;
using tilegate::Backend;
using tilegate::DeltaRule;
using tilegate::DType;

constexpr std::int64_t kDim = 128;
constexpr std::int64_t kHeadsQk = 4;
constexpr std::int64_t kHeadsV = 8;

struct Settings {
  int threads = 1;
  std::int64_t tokens = 2048;
  int repetitions = 9;
};

struct Case {
  std::string name;
  DeltaRule rule = DeltaRule::kGatedDeltaRule;
  tilegate::DeltaRuleArgs args;
  tilegate::DeltaRuleOptions options;
  double work = 0.0;  // multiply-adds, or bytes of state for decode
  const char* unit = "GFLOP/s";
};

Case prefill(DeltaRule rule, const char* name, const Settings& settings, Memory& memory) {
  const std::int64_t tokens = settings.tokens;
  Case c;
  c.name = name;
  c.rule = rule;
  c.args.q = memory.make(DType::kBFloat16, {tokens, kHeadsQk, kDim}, -1.0f, 1.0f);
  c.args.k = memory.make(DType::kBFloat16, {tokens, kHeadsQk, kDim}, -1.0f, 1.0f);
  c.args.v = memory.make(DType::kBFloat16, {tokens, kHeadsV, kDim}, -1.0f, 1.0f);
  c.args.o = memory.make(DType::kBFloat16, {tokens, kHeadsV, kDim}, 0.0f, 0.0f);
  if (rule == DeltaRule::kGatedDeltaRule) {
    c.args.g = memory.make(DType::kFloat32, {tokens, kHeadsV}, 0.9f, 1.0f);
  } else {
    c.args.g = memory.make(DType::kFloat32, {tokens, kHeadsV, kDim}, -0.1f, 0.0f);
  }
  if (rule == DeltaRule::kGatedDeltaRule2) {
    c.args.beta = memory.make(DType::kBFloat16, {tokens, kHeadsV, kDim}, 0.0f, 1.0f);
    c.args.w = memory.make(DType::kBFloat16, {tokens, kHeadsV, kDim}, 0.0f, 1.0f);
  } else {
    c.args.beta = memory.make(DType::kFloat32, {tokens, kHeadsV}, 0.0f, 1.0f);
  }
  c.args.cu_seqlens = memory.counting(2, static_cast<std::int32_t>(tokens));
  c.args.output_state = memory.make(DType::kFloat32, {1, kHeadsV, kDim, kDim}, 0.0f, 0.0f);
  c.options.use_qk_l2norm = true;
  c.options.output_final_state = true;
  // 3 K V for the state, and half of 64 x (2 K + 2 V) for the chunk matrices, a row and head.
  const double row = 3.0 * kDim * kDim + 32.0 * 4.0 * kDim;
  c.work = 2.0 * static_cast<double>(tokens * kHeadsV) * row;
  return c;
}

Case decode(std::int64_t batch, DType state, const char* name, Memory& memory) {
  Case c;
  c.name = name;
  c.rule = DeltaRule::kGatedDeltaRuleDecode;
  c.args.q = memory.make(DType::kBFloat16, {batch, 1, kHeadsQk, kDim}, -1.0f, 1.0f);
  c.args.k = memory.make(DType::kBFloat16, {batch, 1, kHeadsQk, kDim}, -1.0f, 1.0f);
  c.args.v = memory.make(DType::kBFloat16, {batch, 1, kHeadsV, kDim}, -1.0f, 1.0f);
  c.args.o = memory.make(DType::kBFloat16, {batch, 1, kHeadsV, kDim}, 0.0f, 0.0f);
  c.args.a = memory.make(DType::kBFloat16, {batch, 1, kHeadsV}, -1.0f, 1.0f);
  c.args.b = memory.make(DType::kBFloat16, {batch, 1, kHeadsV}, -1.0f, 1.0f);
  c.args.A_log = memory.make(DType::kFloat32, {kHeadsV}, -1.0f, 0.0f);
  c.args.dt_bias = memory.make(DType::kFloat32, {kHeadsV}, -1.0f, 0.0f);
  c.args.state_pool = memory.make(state, {batch, kHeadsV, kDim, kDim}, -1.0f, 1.0f);
  c.args.state_indices = memory.counting(batch, 1);
  c.work = 2.0 * static_cast<double>(c.args.state_pool.numel() * size_of(state));
  c.unit = "GB/s of state";
  return c;
}

// One token a sequence through the prefill op, which takes the chunked form.
Case kda_step(std::int64_t batch, const char* name, Memory& memory) {
  Case c = decode(batch, DType::kFloat32, name, memory);
  c.rule = DeltaRule::kKda;
  c.args.a = c.args.b = c.args.A_log = c.args.dt_bias = {};
  c.args.g = memory.make(DType::kFloat32, {batch, 1, kHeadsV, kDim}, -0.1f, 0.0f);
  c.args.beta = memory.make(DType::kFloat32, {batch, 1, kHeadsV}, 0.0f, 1.0f);
  return c;
}

int time_case(const Case& c, Backend backend, const Settings& settings) {
  tilegate::ContextOptions threads;
  threads.num_threads = settings.threads;
  tilegate::Result<tilegate::Context> context = tilegate::Context::create(threads);
  tilegate::DeltaRuleOptions options = c.options;
  options.backend = backend;
  const auto problem = tilegate::describe(c.rule, c.args, options);
  const auto plan = problem.ok() && context.ok()
                        ? tilegate::plan(*problem, *context)
                        : tilegate::Result<tilegate::Plan>(problem.status());
  if (!plan.ok()) {
    std::fprintf(stderr, "%s: %s\n", c.name.c_str(), plan.status().to_string().c_str());
    return 1;
  }
  const std::size_t bytes = (plan->workspace_bytes() / kAlignment + 1) * kAlignment;
  const std::unique_ptr<void, Free> workspace(std::aligned_alloc(kAlignment, bytes));
  std::vector<double> seconds;
  double processor = INFINITY;
  for (int i = 0; i < settings.repetitions; ++i) {
    const std::clock_t ticks = std::clock();
    const auto start = std::chrono::steady_clock::now();
    const tilegate::Status status = plan->run(*context, c.args, {workspace.get(), bytes});
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    processor = std::min(processor, static_cast<double>(std::clock() - ticks) / CLOCKS_PER_SEC);
    if (!status.ok()) return 1;
  }
  std::sort(seconds.begin(), seconds.end());
  const double best = seconds.front();
  std::printf(
      "%-15s %-20s threads %d  best %8.2f ms  median %8.2f ms  processor %8.2f ms  %6.1f %s\n",
      c.name.c_str(), plan->kernel().c_str(), settings.threads, best * 1e3,
      seconds[seconds.size() / 2] * 1e3, processor * 1e3, c.work / best / 1e9, c.unit);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  if (argc > 1) settings.threads = std::atoi(argv[1]);
  if (argc > 2) settings.tokens = std::atoi(argv[2]);
  if (argc > 3) settings.repetitions = std::atoi(argv[3]);
  Memory memory;
  const Case cases[] = {
      prefill(DeltaRule::kGatedDeltaRule, "gdn prefill", settings, memory),
      prefill(DeltaRule::kKda, "kda prefill", settings, memory),
      prefill(DeltaRule::kGatedDeltaRule2, "gdn2 prefill", settings, memory),
      decode(1, DType::kFloat32, "decode B1 f32", memory),
      decode(64, DType::kFloat32, "decode B64 f32", memory),
      decode(64, DType::kBFloat16, "decode B64 bf16", memory),
      kda_step(64, "kda B64 T1 f32", memory),
  };
  int failures = 0;
  for (const Case& c : cases) failures += time_case(c, Backend::kCpu, settings);
  Settings slow = settings;
  slow.repetitions = std::min(settings.repetitions, 2);
  failures += time_case(cases[0], Backend::kReference, slow);
  return failures == 0 ? 0 : 1;
}
