// SPDX-License-Identifier: Apache-2.0
// Errors of the CPU delta rule where they are hardest to keep small: beta 1, no decay, keys that
// are identical, nearly parallel or alternating, and steep gates. fp32 tensors, one head, K = V =
// 128, 1 x T tokens. Prints the relative RMS error of o and of the final state against the fp64
// reference backend, for the chunked form and, as the yardstick, the fp32 recurrence (which the CPU
// takes when a slot a token is asked for).
//
//   delta_rule_error_bench [tokens]
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "bench/cpu/tensors.h"
#include "tilegate/tilegate.h"

namespace {

using bench::Memory;
using tilegate::Backend;
using tilegate::DType;
using tilegate::TensorView;

constexpr std::int64_t kDim = 128;

struct Hard {
  std::string name;
  std::function<float(std::int64_t row, float base, float noise)> key;
  std::function<float(std::int64_t row)> alpha;
};

struct Result {
  std::vector<float> o, state;
};

float* floats(const TensorView& view) { return static_cast<float*>(view.data); }

std::vector<float> values(const TensorView& view) {
  return {floats(view), floats(view) + view.numel()};
}

double relative_rms(const std::vector<float>& actual, const std::vector<float>& exact) {
  double error = 0.0;
  double size = 0.0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    error += std::pow(double{actual[i]} - double{exact[i]}, 2);
    size += std::pow(double{exact[i]}, 2);
  }
  return std::sqrt(error / size);
}

enum class Form : std::uint8_t { kChunk, kRecurrent };

// The reference rounds its fp64 results to fp32 once, which is below what is measured here.
Result run(tilegate::Context& context, tilegate::DeltaRuleArgs args, Backend backend, Form form,
           Memory& memory) {
  const std::int64_t tokens = args.q.shape[0];
  tilegate::DeltaRuleOptions options;
  options.backend = backend;
  options.use_qk_l2norm = true;
  args.o = memory.make(DType::kFloat32, {tokens, 1, kDim}, 0.0f, 0.0f);
  args.state_pool = memory.make(DType::kFloat32, {1, 1, kDim, kDim}, 0.0f, 0.0f);
  args.state_indices = memory.counting(1, 0);
  if (form == Form::kRecurrent) {
    args.state_slots = memory.make(DType::kInt32, {1, tokens}, 0.0f, 0.0f);
    for (std::int64_t t = 0; t < tokens; ++t) {
      static_cast<std::int32_t*>(args.state_slots.data)[t] = t + 1 < tokens ? -1 : 0;
    }
  }
  const tilegate::Status status = tilegate::chunk_gated_delta_rule(context, args, options);
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.to_string().c_str());
    std::exit(1);
  }
  return {values(args.o), values(args.state_pool)};
}

void measure(tilegate::Context& context, const Hard& hard, std::int64_t tokens) {
  Memory memory;
  tilegate::DeltaRuleArgs args;
  args.q = memory.make(DType::kFloat32, {tokens, 1, kDim}, -1.0f, 1.0f);
  args.k = memory.make(DType::kFloat32, {tokens, 1, kDim}, -1.0f, 1.0f);
  args.v = memory.make(DType::kFloat32, {tokens, 1, kDim}, -1.0f, 1.0f);
  args.g = memory.make(DType::kFloat32, {tokens, 1}, 1.0f, 1.0f);
  args.cu_seqlens = memory.counting(2, static_cast<std::int32_t>(tokens));
  const TensorView base = memory.make(DType::kFloat32, {kDim}, -1.0f, 1.0f);
  for (std::int64_t t = 0; t < tokens; ++t) {
    floats(args.g)[t] = hard.alpha(t);
    for (std::int64_t c = 0; c < kDim; ++c) {
      float& key = floats(args.k)[t * kDim + c];
      key = hard.key(t, floats(base)[c], key);
    }
  }
  const Result exact = run(context, args, Backend::kReference, Form::kChunk, memory);
  const Result chunk = run(context, args, Backend::kCpu, Form::kChunk, memory);
  const Result recurrent = run(context, args, Backend::kCpu, Form::kRecurrent, memory);
  std::printf("%-28s T %6lld  chunk: o %.1e state %.1e   fp32 recurrence: o %.1e state %.1e\n",
              hard.name.c_str(), static_cast<long long>(tokens), relative_rms(chunk.o, exact.o),
              relative_rms(chunk.state, exact.state), relative_rms(recurrent.o, exact.o),
              relative_rms(recurrent.state, exact.state));
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t tokens = argc > 1 ? std::atoi(argv[1]) : 4096;
  tilegate::Result<tilegate::Context> context = tilegate::Context::create();
  if (!context.ok()) return 1;
  const auto one = [](std::int64_t) { return 1.0f; };
  const auto noise = [](std::int64_t, float, float x) { return x; };
  const Hard cases[] = {
      {"identical keys", [](std::int64_t, float base, float) { return base; }, one},
      {"nearly parallel keys", [](std::int64_t, float base, float x) { return base + 0.1f * x; },
       one},
      {"alternating keys",
       [](std::int64_t t, float base, float) { return t % 2 == 0 ? base : -base; }, one},
      {"random keys, no decay", noise, one},
      {"random keys, alpha 0.99", noise, [](std::int64_t) { return 0.99f; }},
      {"random keys, 0 every 9th", noise,
       [](std::int64_t t) { return t % 9 == 0 ? 0.0f : 0.999f; }},
      {"random keys, alpha 1e-12", noise, [](std::int64_t) { return 1e-12f; }},
      {"random keys, spikes 1e-30", noise,
       [](std::int64_t t) { return t % 21 == 0 ? 1e-30f : 0.999f; }},
  };
  for (const Hard& hard : cases) measure(*context, hard, tokens);
  return 0;
}
