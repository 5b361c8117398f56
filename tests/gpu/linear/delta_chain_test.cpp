// SPDX-License-Identifier: Apache-2.0
// A chain of a thousand decode steps whose states are stored in 16 bits after each, against the
// same chain with fp64 arithmetic and fp32 states: how far rounding drifts (docs/design).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/gpu/linear/delta_case.h"

namespace tilegate::test {
namespace {

constexpr int kSteps = 1000;

struct Drift {
  double state = 0.0;   // |S - S exact| / |S exact|, after the last step
  double output = 0.0;  // the same of o, over all steps
};

double square_sum(const Mirror& exact, const std::vector<unsigned char>& got, DType dtype,
                  double& error) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < exact.elements(); ++i) {
    const double x = exact.get(i);
    const double y = load_float(got.data(), dtype, i);
    sum += x * x;
    error += (x - y) * (x - y);
  }
  return sum;
}

// `a` of every step is drawn from [low, high).
Drift run_chain(DType state, float low, float high) {
  Context cuda = Context::create({.device = {DeviceType::kCuda, 0}}).value();
  Context cpu = Context::create({}).value();
  DeltaShape shape{.lens = {1}, .slots = 1};
  DeltaCase exact(shape);
  shape.state = state;
  DeltaCase rounded(shape);
  for (std::int64_t i = 0; i < exact.pool.elements(); ++i) exact.pool.set(i, rounded.pool.get(i));
  const float key = 1.7f / std::sqrt(static_cast<float>(shape.dim_k));
  double error = 0.0;
  double size = 0.0;
  for (int step = 0; step < kSteps; ++step) {
    rounded.q.draw(rounded.random, -key, key);
    rounded.k.draw(rounded.random, -key, key);
    rounded.v.draw(rounded.random, -1.0f, 1.0f);
    rounded.a.draw(rounded.random, low, high);
    rounded.b.draw(rounded.random, -3.0f, 3.0f);
    for (auto [from, to] : {std::pair{&rounded.q, &exact.q},
                            {&rounded.k, &exact.k},
                            {&rounded.v, &exact.v},
                            {&rounded.a, &exact.a},
                            {&rounded.b, &exact.b}}) {
      to->set_bytes(from->bytes());
      from->push();
    }
    gated_delta_rule_decode(cuda, rounded.device(), rounded.options).throw_if_error();
    DeltaRuleOptions reference = exact.options;
    reference.backend = Backend::kReference;
    gated_delta_rule_decode(cpu, exact.host(), reference).throw_if_error();
    size += square_sum(exact.o, rounded.o.read(), shape.dtype, error);
  }
  Drift drift;
  drift.output = std::sqrt(error / size);
  error = 0.0;
  size = square_sum(exact.pool, rounded.pool.read(), state, error);
  drift.state = std::sqrt(error / size);
  return drift;
}

TEST(DeltaChainGpu, SixteenBitStatesDriftWithinTheBound) {
  TILEGATE_REQUIRE_GPU(80);
  struct Gate {
    const char* name;
    float low, high;
  };
  for (const Gate gate :
       {Gate{"decays", -3.0f, 3.0f}, {"slow", -9.0f, -5.0f}, {"none", -100, -99}}) {
    for (const DType state : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
      const Drift drift = run_chain(state, gate.low, gate.high);
      RecordProperty(fmt::format("{}_{}_state", gate.name, to_string(state)),
                     fmt::format("{:.2e}", drift.state));
      fmt::print("{} {}: state {:.2e}, output {:.2e}\n", gate.name, to_string(state), drift.state,
                 drift.output);
      const double bound = state == DType::kBFloat16  ? 3e-2
                           : state == DType::kFloat16 ? 4e-3
                                                      : 1e-5;
      EXPECT_LE(drift.state, bound) << gate.name << " " << to_string(state);
    }
  }
}

}  // namespace
}  // namespace tilegate::test
