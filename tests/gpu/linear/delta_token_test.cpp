// SPDX-License-Identifier: Apache-2.0
// The decode kernel for one token a sequence (kernel/linear/token_decode.cuh): which calls take it,
// the bits of the kernel whose warps share their steps, and against the reference the rules, gates,
// slots, skips and absent tensors of such calls, chosen and at random.
#include <fmt/format.h>

#include <limits>
#include <tuple>

#include "tests/gpu/linear/delta_fixture.h"

namespace tilegate::test {
namespace {

class DeltaTokenGpu : public DeltaGpuTest {
 protected:
  bool takes_rows_alone(DeltaCase& c) {
    const std::string text = plan_for(c, c.device(), Backend::kCuda).explain();
    return text.find("a block prepares for itself") != std::string::npos;
  }

  // Values of the final states, row after row without gaps.
  static std::vector<float> final_states(const DeltaCase& c) {
    const Mirror& states = c.output_state;
    const std::vector<unsigned char> bytes = states.read();
    std::vector<float> values;
    for (std::int64_t i = 0; i < states.dim(0); ++i)
      for (std::int64_t h = 0; h < states.dim(1); ++h)
        for (std::int64_t v = 0; v < states.dim(2); ++v)
          for (std::int64_t k = 0; k < states.dim(3); ++k) {
            const std::int64_t at =
                i * states.stride(0) + h * states.stride(1) + v * states.stride(2) + k;
            values.push_back(load_float(bytes.data(), states.dtype(), at));
          }
    return values;
  }

  // States in rows of `gap` more elements, with values of few bits.
  static void place_states(DeltaCase& c, std::int64_t gap) {
    const DeltaShape& s = c.shape;
    const auto states = {c.num_seqs(), s.heads_o(), s.dim_v, s.dim_k};
    c.state = Mirror(s.state, states, gap);
    c.output_state = Mirror(s.out_state, states, gap);
    std::int64_t number = 0;
    for (std::int64_t i = 0; i < c.num_seqs(); ++i)
      for (std::int64_t h = 0; h < s.heads_o(); ++h)
        for (std::int64_t v = 0; v < s.dim_v; ++v)
          for (std::int64_t k = 0; k < s.dim_k; ++k) {
            const std::int64_t at =
                i * c.state.stride(0) + h * c.state.stride(1) + v * c.state.stride(2) + k;
            c.state.set(at, static_cast<float>(++number * 7 % 37 - 18) / 16.0f);
          }
  }

  // Rows eight elements apart take the kernel whose warps share their steps.
  void expect_bits_of_shared_steps(const DeltaShape& shape, const std::string& what) {
    for (const bool norm : {false, true}) {
      SCOPED_TRACE(fmt::format("{} norm {}", what, norm));
      DeltaCase alone(shape);
      DeltaCase shared(shape);
      place_states(alone, 0);
      place_states(shared, 8);
      for (DeltaCase* c : {&alone, &shared}) {
        c->options.use_qk_l2norm = norm;
        c->push();
        EXPECT_EQ(takes_rows_alone(*c), c == &alone);
        run_gpu(*c);
      }
      EXPECT_EQ(alone.o.read(), shared.o.read());
      EXPECT_EQ(final_states(alone), final_states(shared));
    }
  }

  void expect_reference_alone(DeltaCase& c) {
    c.push();
    EXPECT_TRUE(takes_rows_alone(c));
    expect_reference(c);
  }
};

constexpr DType kFloats[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};

TEST_F(DeltaTokenGpu, BitsOfTheKernelThatSharesSteps) {
  for (const auto& [state, token] : {std::pair{DType::kFloat32, DType::kBFloat16},
                                     {DType::kFloat32, DType::kFloat16},
                                     {DType::kBFloat16, DType::kBFloat16},
                                     {DType::kFloat16, DType::kFloat16}}) {
    for (const std::int64_t dim_k : {64, 128, 256}) {
      DeltaShape shape{.lens = {1, 1, 1}, .dim_k = dim_k, .dim_v = 64, .dtype = token};
      shape.state = shape.out_state = state;
      const std::string what = fmt::format("{} {} {}", to_string(state), to_string(token), dim_k);
      expect_bits_of_shared_steps(shape, what);
      shape.rule = DeltaRule::kKda;
      shape.raw_gates = true;
      expect_bits_of_shared_steps(shape, what + " kda");
      shape.raw_gates = false;
      shape.gate = token;
      expect_bits_of_shared_steps(shape, what + " kda log");
      shape.rule = DeltaRule::kGatedDeltaRule;
      expect_bits_of_shared_steps(shape, what + " gdn");
    }
  }
}

TEST_F(DeltaTokenGpu, TakesCallsOfOneTokenAlone) {
  const auto takes = [&](const DeltaShape& shape) {
    DeltaCase c(shape);
    c.push();
    return takes_rows_alone(c);
  };
  EXPECT_TRUE(takes({.lens = {1, 1}}));
  EXPECT_TRUE(takes({.lens = {1, 1}, .slots = 7}));
  EXPECT_FALSE(takes({.lens = {2, 2}}));
  EXPECT_TRUE(takes({.rule = DeltaRule::kGatedDeltaRule, .lens = {1, 1}}));
  EXPECT_FALSE(takes({.rule = DeltaRule::kGatedDeltaRule, .lens = {1, 1}, .packed = true}));
  EXPECT_FALSE(takes({.lens = {1, 1}, .dtype = DType::kFloat32}));
  EXPECT_FALSE(takes({.lens = {1, 1}, .dim_v = 40}));
  EXPECT_FALSE(takes({.lens = {1, 1}, .state = DType::kBFloat16}));
  EXPECT_FALSE(takes({.rule = DeltaRule::kGatedDeltaRule2, .lens = {1, 1}}));
  DeltaCase recorded({.lens = {1, 1}});
  recorded.add_record();
  recorded.push();
  EXPECT_FALSE(takes_rows_alone(recorded));
}

// fp32 states, 32 of 128 x 128 a sequence: up to 4096.
TEST_F(DeltaTokenGpu, LeavesManyWideStates) {
  for (const auto& [seqs, state, taken] : {std::tuple{128U, DType::kFloat32, true},
                                           {129U, DType::kFloat32, false},
                                           {129U, DType::kBFloat16, true}}) {
    DeltaShape shape{.lens = std::vector<int>(seqs, 1), .heads_v = 32, .state = state};
    shape.slots = 3;  // read by number when the call runs, which this one does not
    DeltaCase c(shape);
    EXPECT_EQ(takes_rows_alone(c), taken) << seqs << " " << to_string(state);
  }
}

TEST_F(DeltaTokenGpu, RulesGatesAndHeads) {
  struct Heads {
    std::int64_t q, k, v;
  };
  for (const Heads h : {Heads{1, 1, 1}, {6, 2, 2}, {2, 6, 6}, {3, 3, 3}}) {
    for (const DType gate : kFloats) {
      SCOPED_TRACE(fmt::format("heads {} {} {} {}", h.q, h.k, h.v, to_string(gate)));
      DeltaShape shape{.lens = {1, 1}, .heads_q = h.q, .heads_k = h.k, .heads_v = h.v};
      shape.gate = gate;
      for (const DeltaRule rule : {DeltaRule::kGatedDeltaRule, DeltaRule::kKda}) {
        shape.rule = rule;
        DeltaCase ready(shape);
        expect_reference_alone(ready);
      }
      shape.raw_gates = true;
      DeltaCase bounded(shape);
      bounded.options.lower_bound = -5.0;
      bounded.options.use_qk_l2norm = true;
      bounded.options.beta_is_logit = true;
      expect_reference_alone(bounded);
    }
  }
}

TEST_F(DeltaTokenGpu, AbsentGatesFactorsAndStates) {
  for (const DeltaRule rule : {DeltaRule::kGatedDeltaRule, DeltaRule::kKda}) {
    SCOPED_TRACE(static_cast<int>(rule));
    DeltaCase c({.rule = rule, .lens = {1, 1}});
    for (Mirror* m : {&c.g, &c.beta, &c.state}) *m = Mirror();
    expect_reference_alone(c);
    DeltaCase no_output({.rule = rule, .lens = {1, 1}});
    no_output.options.output_final_state = false;
    no_output.output_state = Mirror();
    expect_reference_alone(no_output);
  }
}

// What is forgotten is replaced by zero, be it infinite.
TEST_F(DeltaTokenGpu, ZeroDecayForgets) {
  for (const DeltaRule rule : {DeltaRule::kGatedDeltaRule, DeltaRule::kKda}) {
    DeltaCase c({.rule = rule, .lens = {1, 1}});
    const bool log = rule == DeltaRule::kKda;
    for (std::int64_t i = 0; i < c.g.elements() / 2; ++i) {
      c.g.set(i, log ? -std::numeric_limits<float>::infinity() : 0.0f);
    }
    c.state.fill(std::numeric_limits<float>::infinity());
    expect_reference_alone(c);
  }
}

// Slots that nobody reads hold NaN; a skipped sequence has zeros and touches nothing.
TEST_F(DeltaTokenGpu, PoolsSlotsAndSkips) {
  for (const DType state : kFloats) {
    for (const DType index : {DType::kInt32, DType::kInt64}) {
      SCOPED_TRACE(testing::Message() << to_string(state) << to_string(index));
      DeltaShape shape{.lens = {1, 1, 1, 1, 1}, .state = state, .index = index};
      if (state == DType::kFloat16) shape.dtype = state;
      shape.slots = 11;
      DeltaCase c(shape);
      c.state_indices.set_index(1, -1);
      const std::int64_t slot = c.pool.stride(0);
      for (const std::int64_t row : {0, 8}) {
        for (std::int64_t j = 0; j < slot; ++j) c.pool.set(row * slot + j, std::nanf(""));
      }
      expect_reference_alone(c);
    }
  }
}

// A call that the kernel takes, all else at random.
DeltaShape random_shape(Random& random) {
  struct Types {
    DType state, token;
  };
  constexpr Types kTypes[] = {{DType::kFloat32, DType::kBFloat16},
                              {DType::kFloat32, DType::kFloat16},
                              {DType::kBFloat16, DType::kBFloat16},
                              {DType::kFloat16, DType::kFloat16}};
  constexpr std::int64_t kHeads[][2] = {{1, 1}, {6, 2}, {2, 6}, {3, 3}};
  constexpr DeltaRule kRules[] = {DeltaRule::kGatedDeltaRuleDecode, DeltaRule::kGatedDeltaRule,
                                  DeltaRule::kKda};
  DeltaShape shape;
  shape.rule = kRules[random.below(3)];
  shape.lens.assign(static_cast<std::size_t>(1 + random.below(5)), 1);
  const auto& heads = kHeads[random.below(4)];
  shape.heads_q = heads[0];
  shape.heads_k = shape.heads_v = heads[1];
  shape.dim_k = 64 << random.below(3);
  shape.dim_v = 32 * (1 + random.below(3));
  const Types& types = kTypes[random.below(4)];
  shape.state = shape.out_state = types.state;
  shape.dtype = types.token;
  shape.gate = kFloats[random.below(3)];
  shape.index = random.below(2) == 0 ? DType::kInt32 : DType::kInt64;
  shape.raw_gates = shape.rule == DeltaRule::kKda && random.below(2) == 0;
  if (random.below(2) == 0) return shape;
  shape.slots = static_cast<std::int64_t>(shape.lens.size()) + random.below(4);
  if (shape.slots % 5 == 0) ++shape.slots;
  return shape;
}

// Options at random, and tensors left out that may be.
void vary(DeltaCase& c, Random& random) {
  const auto rarely = [&] { return random.below(4) == 0; };
  c.options.use_qk_l2norm = random.below(2) == 0;
  if (c.shape.raw_gates && random.below(2) == 0) c.options.lower_bound = -5.0;
  if (c.shape.rule == DeltaRule::kKda) c.options.beta_is_logit = random.below(2) == 0;
  const bool optional_gates = c.shape.rule != DeltaRule::kGatedDeltaRuleDecode;
  if (optional_gates && !c.shape.raw_gates && rarely()) c.g = Mirror();
  if (optional_gates && !c.options.beta_is_logit && rarely()) c.beta = Mirror();
  if (c.shape.slots > 0) {
    for (std::int64_t i = 0; i < c.num_seqs(); ++i) {
      if (rarely()) c.state_indices.set_index(i, -1);
    }
    c.options.disable_state_update = rarely();
    return;
  }
  if (rarely()) c.state = Mirror();
  if (!rarely()) return;
  c.options.output_final_state = false;
  c.output_state = Mirror();
}

TEST_F(DeltaTokenGpu, CallsAtRandom) {
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    Random random(seed);
    const DeltaShape shape = random_shape(random);
    SCOPED_TRACE(fmt::format("seed {}: rule {} seqs {} heads {} {} K {} V {} {} {} slots {}", seed,
                             static_cast<int>(shape.rule), shape.lens.size(), shape.heads_q,
                             shape.heads_v, shape.dim_k, shape.dim_v, to_string(shape.state),
                             to_string(shape.dtype), shape.slots));
    DeltaCase c(shape, seed);
    vary(c, random);
    expect_reference_alone(c);
  }
}

// A launch may begin while its predecessor ends: a chain in one stream has the bits of a chain that
// waits after every launch.
TEST_F(DeltaTokenGpu, ChainsWaitForTheirPredecessor) {
  for (const std::size_t seqs : {1U, 40U}) {
    DeltaShape shape{.lens = std::vector<int>(seqs, 1), .heads_v = 8, .state = DType::kBFloat16};
    shape.slots = static_cast<std::int64_t>(seqs) + (seqs % 5 == 0 ? 1 : 0);
    DeltaCase chain(shape);
    DeltaCase steps(shape);
    for (DeltaCase* c : {&chain, &steps}) {
      c->push();
      const DeltaRuleArgs args = c->device();
      const Plan plan = plan_for(*c, args, Backend::kCuda);
      for (int i = 0; i < 30; ++i) {
        plan.run(*cuda_, args, {}, nullptr).throw_if_error();
        if (c == &steps) synchronize({DeviceType::kCuda, 0}).throw_if_error();
      }
      synchronize({DeviceType::kCuda, 0}).throw_if_error();
    }
    EXPECT_EQ(chain.pool.read(), steps.pool.read());
    EXPECT_EQ(chain.o.read(), steps.o.read());
  }
}

}  // namespace
}  // namespace tilegate::test
