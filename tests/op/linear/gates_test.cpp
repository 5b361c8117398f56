// SPDX-License-Identifier: Apache-2.0
// Laws of the gates: alpha = 0 and g = -inf forget exactly, alpha = 1 never decays, tiny and steep
// gates make no infinities, and both gate spaces mean the same.
#include <cmath>
#include <limits>

#include "tests/op/oracle/delta_law.h"

namespace laws {
namespace {

using tilegate::DeltaRule;
using tilegate::DType;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Gates : public DeltaLaw {
 protected:
  static DeltaCall call_of(DeltaRule rule, Dims lens = {90}, DType dtype = DType::kFloat32) {
    DeltaShape shape;
    shape.rule = rule;
    shape.lens = lengths(std::move(lens));
    shape.dtype = dtype;
    shape.householder = rule == DeltaRule::kGatedDeltaProduct ? 2 : 1;
    shape.dim_k = shape.dim_v = 32;
    return make_delta(shape);
  }
  static bool linear(const DeltaCall& call) {
    return call.rule == DeltaRule::kGatedDeltaRule || call.rule == DeltaRule::kGatedDeltaProduct;
  }
  // alpha of every gate of token t.
  static void set_alpha(DeltaCall& call, std::int64_t t, double alpha) {
    call.g.select(0, t).fill(linear(call) ? alpha : std::log(alpha));
  }
  static void set_all_alphas(DeltaCall& call, double alpha) {
    for (std::int64_t t = 0; t < call.tokens(); ++t) set_alpha(call, t, alpha);
  }
};

TEST_P(Gates, ZeroForgetsExactly) {
  for (const DeltaRule rule : kChunkRules) {
    for (const std::int64_t at : {0, 1, 9, 37, 63, 64, 89}) {
      DeltaCall call = call_of(rule);
      const std::int64_t end = call.tokens();
      if (at >= end) continue;
      set_alpha(call, at, 0.0);
      if (!expect_oracle(call, "alpha 0 at " + std::to_string(at))) continue;
      // What came before, infinities apart, has no influence on one bit from there on.
      DeltaCall other = call;
      other.options.batch_invariant = call.options.batch_invariant = true;
      other.reset_outputs();
      other.initial_state = call.initial_state.clone();
      for (std::int64_t i = 0; i < other.initial_state.numel(); ++i) {
        other.initial_state.set_flat(i, 3.0 - other.initial_state.flat(i));
      }
      if (!run(call) || !run(other)) continue;
      expect_same_bits(other.o.slice(0, at, end), call.o.slice(0, at, end), "o after forgetting");
      expect_same_bits(other.output_state, call.output_state, "state after forgetting");
    }
  }
}

TEST_P(Gates, EveryTokenForgets) {
  for (const DeltaRule rule : kChunkRules) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      DeltaCall call = call_of(rule, {70}, dtype);
      set_all_alphas(call, 0.0);
      expect_oracle(call, "all alpha 0");
    }
  }
}

TEST_P(Gates, OneNeverDecays) {
  for (const DeltaRule rule : kChunkRules) {
    DeltaCall call = call_of(rule, {700});
    set_all_alphas(call, 1.0);
    expect_oracle(call, "alpha 1");
    DeltaCall absent = call;
    absent.g = {};
    absent.reset_outputs();
    call.reset_outputs();
    if (!run(call) || !run(absent)) continue;
    const Tolerance close = tolerance(Quantity::kDelta, DType::kFloat32);
    expect_close(absent.o_rows(), call.o_rows(), close, "o of no gate and of gate 1");
  }
}

// With beta 0 and no decay the state must survive any number of tokens bit for bit.
TEST_P(Gates, OneAndNoWriteKeepTheStateBitwise) {
  for (const DeltaRule rule :
       {DeltaRule::kGatedDeltaRule, DeltaRule::kGatedDeltaProduct, DeltaRule::kKda}) {
    DeltaCall call = call_of(rule, {200});
    set_all_alphas(call, 1.0);
    call.beta.slice(0, 0, call.tokens() * call.options.num_householder).fill(0.0);
    if (run(call)) expect_same_bits(call.output_state, call.initial_state, "kept state");
  }
}

TEST_P(Gates, TinyAlphaIsNotZero) {
  for (const DeltaRule rule : kChunkRules) {
    for (const double alpha : {1e-12, 1e-30}) {
      DeltaCall call = call_of(rule);
      set_all_alphas(call, alpha);
      expect_oracle(call, "all tiny");
      DeltaCall once = call_of(rule);
      set_alpha(once, once.tokens() / 2, alpha);
      expect_oracle(once, "one tiny");
    }
  }
}

// 1e-12 applied to a state of 1e12 leaves 1: a floor of 1e-10 would show.
TEST_P(Gates, TinyAlphaHasNoFloor) {
  for (const DeltaRule rule : kChunkRules) {
    DeltaCall call = call_of(rule, {1});
    for (std::int64_t i = 0; i < call.initial_state.numel(); ++i) {
      call.initial_state.set_flat(i, 1e12 * call.initial_state.flat(i));
    }
    set_alpha(call, 0, 1e-12);
    expect_oracle(call, "1e-12 of 1e12");
  }
}

TEST_P(Gates, OneSpike) {
  for (const DeltaRule rule : {DeltaRule::kGatedDeltaRule2, DeltaRule::kKda}) {
    for (const double spike : {-50.0, -200.0, -1e4, -1e30, -kInfinity}) {
      for (const std::int64_t at : {0, 9, 20, 63, 64}) {
        DeltaCall call = call_of(rule);
        if (at >= call.tokens()) continue;
        call.g.set(spike, at, 0, 5);  // one channel of one head
        call.g.select(0, at).select(0, 1).fill(spike);
        expect_oracle(call, "spike " + std::to_string(spike) + " at " + std::to_string(at));
      }
    }
  }
}

TEST_P(Gates, SteepGatesEverywhere) {
  for (const DeltaRule rule : {DeltaRule::kGatedDeltaRule2, DeltaRule::kKda}) {
    for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
      DeltaCall call = call_of(rule, {130}, dtype);
      Random random(17);
      random.uniforms(call.g.slice(0, 0, call.tokens()), -30.0, 0.0);
      expect_oracle(call, "steep");
    }
  }
}

TEST_P(Gates, ChannelsOfVeryDifferentDecay) {
  for (const DeltaRule rule : {DeltaRule::kGatedDeltaRule2, DeltaRule::kKda}) {
    DeltaCall call = call_of(rule, {140});
    for (std::int64_t t = 0; t < call.tokens(); ++t) {
      for (std::int64_t h = 0; h < 2; ++h) {
        for (std::int64_t i = 0; i < 32; ++i) {
          constexpr double kLogs[] = {0.0, -1e-6, -0.1, -3.0, -90.0, -kInfinity};
          call.g.set(kLogs[(i + t / 5) % 6], t, h, i);
        }
      }
    }
    expect_oracle(call, "mixed channels");
  }
}

TEST_P(Gates, BothSpacesAgree) {
  for (const DeltaRule rule : kChunkRules) {
    DeltaCall own = call_of(rule);
    DeltaCall other = own;
    other.reset_outputs();
    other.g = own.g.clone();
    for (std::int64_t i = 0; i < other.g.numel(); ++i) {
      const double g = own.g.flat(i);
      other.g.set_flat(i, linear(own) ? std::log(g) : std::exp(g));
    }
    other.options.gate_domain =
        linear(own) ? tilegate::GateDomain::kLog : tilegate::GateDomain::kLinear;
    expect_oracle(other, "the other gate space");
    if (!run(own) || !run(other)) continue;
    const Tolerance close = tolerance(Quantity::kDelta, DType::kFloat32);
    expect_close(other.o_rows(), own.o_rows(), close, "o in the other gate space");
    expect_close(other.output_state, own.output_state, close, "state in the other gate space");
  }
}

TEST_P(Gates, ForgettingInBothSpaces) {
  for (const DeltaRule rule : kChunkRules) {
    for (const auto domain : {tilegate::GateDomain::kLinear, tilegate::GateDomain::kLog}) {
      DeltaCall call = call_of(rule);
      call.options.gate_domain = domain;
      const bool log = domain == tilegate::GateDomain::kLog;
      const std::int64_t end = call.tokens();
      call.g.slice(0, 0, end).fill(log ? -0.05 : 0.95);
      call.g.select(0, end / 3).fill(log ? -kInfinity : 0.0);
      call.g.select(0, end * 3 / 4).fill(log ? -0.0 : 1.0);
      expect_oracle(call, log ? "log" : "linear");
    }
  }
}

LAWS_ON_EVERY_BACKEND(Gates);

}  // namespace
}  // namespace laws
