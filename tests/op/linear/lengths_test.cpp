// SPDX-License-Identifier: Apache-2.0
// Laws of the lengths: every tail is right, empty sequences pass their state through bitwise
// wherever they stand, rows outside the sequences are never read, and large batches launch.
#include <limits>

#include "tests/op/oracle/delta_law.h"

namespace laws {
namespace {

using tilegate::DeltaRule;
using tilegate::DType;

class Lengths : public DeltaLaw {
 protected:
  static DeltaCall call_of(DeltaRule rule, Dims lens, DType state = DType::kFloat32) {
    DeltaShape shape;
    shape.rule = rule;
    shape.lens = lengths(std::move(lens));
    shape.heads_q = shape.heads_k = shape.heads_v = 1;
    shape.dim_k = shape.dim_v = key_dim(16);
    shape.state_dtype = state;
    shape.householder = rule == DeltaRule::kGatedDeltaProduct ? 2 : 1;
    return make_delta(shape);
  }
};

TEST_P(Lengths, From1To130) {
  Dims lens;
  for (std::int64_t n = 1; n <= 130; ++n) lens.push_back(n);
  for (const DeltaRule rule : kChunkRules) expect_oracle(call_of(rule, lens));
}

TEST_P(Lengths, From1To130WithBfloat16) {
  Dims lens;
  for (std::int64_t n = 130; n >= 1; n -= 3) lens.push_back(n);
  for (const DeltaRule rule : kChunkRules) {
    DeltaShape shape;
    shape.rule = rule;
    shape.lens = lengths(lens);
    shape.heads_q = shape.heads_k = shape.heads_v = 1;
    shape.dtype = DType::kBFloat16;
    shape.householder = rule == DeltaRule::kGatedDeltaProduct ? 3 : 1;
    expect_oracle(make_delta(shape));
  }
}

TEST_P(Lengths, EmptySequencesAnywherePassTheirStateThrough) {
  for (const DeltaRule rule : kChunkRules) {
    for (const DType state : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
      for (const Dims& lens :
           {Dims{0, 5, 70}, Dims{5, 0, 70}, Dims{5, 70, 0}, Dims{0, 0, 3, 0, 0}}) {
        DeltaCall call = call_of(rule, lens, state);
        // Values that no arithmetic keeps: a NaN payload, an infinity, a negative zero.
        for (std::size_t i = 0; i < lens.size(); ++i) {
          if (lens[i] > 0) continue;
          Tensor s = call.initial_state.select(0, static_cast<std::int64_t>(i));
          s.set_flat(0, -0.0);
          s.set_flat(1, std::numeric_limits<double>::infinity());
          s.select(0, 0).select(0, 1).poison();
        }
        if (!run(call)) continue;
        for (std::size_t i = 0; i < lens.size(); ++i) {
          if (lens[i] > 0) continue;
          const auto n = static_cast<std::int64_t>(i);
          expect_same_bits(call.output_state.select(0, n), call.initial_state.select(0, n),
                           "state of an empty sequence, " + label(call));
        }
        DeltaCall clean = call_of(rule, lens, state);
        expect_oracle(clean, "beside empty sequences");
      }
    }
  }
}

TEST_P(Lengths, AllEmpty) {
  for (const DeltaRule rule : kChunkRules) {
    DeltaCall call = call_of(rule, {0, 0, 0});
    if (!run(call)) continue;
    expect_same_bits(call.output_state, call.initial_state, "states of empty sequences");
    expect_untouched(call.o, "o");
    DeltaCall fresh = call_of(rule, {0, 0});
    fresh.initial_state = {};
    if (run(fresh)) expect_all(fresh.output_state, 0.0, "state of an empty sequence from zero");
  }
}

TEST_P(Lengths, NoTokenAtAllAndNoSequence) {
  for (const DeltaRule rule : kChunkRules) {
    DeltaShape shape;
    shape.rule = rule;
    shape.lens = {0, 0};
    shape.spare_rows = 0;  // T = 0
    DeltaCall call = make_delta(shape);
    if (run(call)) expect_same_bits(call.output_state, call.initial_state, "states of T = 0");
    DeltaCall pooled = make_delta(shape);
    pooled.use_pool();
    const Tensor before = pooled.state_pool.clone();
    if (run(pooled)) expect_same_bits(pooled.state_pool, before, "pool of T = 0");
    shape.lens = {};
    shape.spare_rows = 4;
    DeltaCall none = make_delta(shape);
    if (run(none)) expect_untouched(none.o, "o of no sequences");
  }
}

TEST_P(Lengths, PoisonInANeighbour) {
  for (const DeltaRule rule : kChunkRules) {
    DeltaCall clean = call_of(rule, {30, 70, 20});
    DeltaCall poisoned = call_of(rule, {30, 70, 20});
    const std::int64_t n = clean.options.num_householder;
    const std::int64_t begin = clean.lens[0], end = begin + clean.lens[1];
    for (Tensor* t :
         {&poisoned.q, &poisoned.k, &poisoned.v, &poisoned.g, &poisoned.beta, &poisoned.w}) {
      if (!t->present()) continue;
      const std::int64_t factor = t->dim(0) / poisoned.q.dim(0);
      ASSERT_TRUE(factor == 1 || factor == n);
      t->slice(0, begin * factor, end * factor).poison();
    }
    poisoned.initial_state.select(0, 1).poison();
    if (!run(clean) || !run(poisoned)) continue;
    for (const std::size_t sequence : {0, 2}) {
      const auto i = static_cast<std::int64_t>(sequence);
      expect_same_bits(poisoned.o_of(sequence), clean.o_of(sequence), "o beside poison");
      expect_same_bits(poisoned.output_state.select(0, i), clean.output_state.select(0, i),
                       "state beside poison");
    }
  }
}

TEST_P(Lengths, ManySpareRows) {
  for (const DeltaRule rule : kChunkRules) {
    DeltaShape shape;
    shape.rule = rule;
    shape.lens = lengths({3, 61});
    shape.spare_rows = 100;
    shape.dim_k = shape.dim_v = key_dim(16);
    expect_oracle(make_delta(shape), "100 spare rows");
  }
}

TEST_P(Lengths, MaxSeqlenIsOnlyABound) {
  for (const DeltaRule rule : kChunkRules) {
    DeltaCall call = call_of(rule, {20, 65});
    const std::int64_t longest = call.lens[1];
    for (const std::int64_t bound : {longest, longest + 1, std::int64_t{100000}}) {
      call.options.max_seqlen = bound;
      expect_oracle(call, "max_seqlen " + std::to_string(bound));
    }
    if (!on_cpu_device()) continue;
    call.options.max_seqlen = longest - 1;
    const tilegate::Status status = attempt(call);
    EXPECT_EQ(status.code(), tilegate::StatusCode::kInvalidArgument) << status.to_string();
    EXPECT_NE(status.message().find("max_seqlen"), std::string::npos) << status.message();
  }
}

TEST_P(Lengths, TwoThousandOneTokenSequences) {
  for (const DeltaRule rule : kChunkRules) {
    DeltaShape shape;
    shape.rule = rule;
    shape.lens = Dims(2048, 1);
    shape.heads_q = shape.heads_k = shape.heads_v = 1;
    shape.dim_k = shape.dim_v = key_dim(8);
    expect_oracle(make_delta(shape));
  }
}

TEST_P(Lengths, HundredThousandPairs) {
  DeltaShape shape;
  shape.lens = Dims(3200, 1);
  shape.heads_q = shape.heads_k = 1;
  shape.heads_v = 32;
  shape.dim_k = key_dim(8);
  shape.dim_v = 8;
  expect_oracle(make_delta(shape));
}

TEST_P(Lengths, IndexTensorsOfBothWidths) {
  for (const DeltaRule rule : kChunkRules) {
    DeltaCall narrow = call_of(rule, {9, 0, 70});
    narrow.use_pool();
    DeltaCall wide = call_of(rule, {9, 0, 70});
    wide.use_pool();
    wide.cu_seqlens = wide.cu_seqlens.as(DType::kInt64);
    wide.state_indices = wide.state_indices.as(DType::kInt64);
    if (!run(narrow) || !run(wide)) continue;
    expect_same_bits(wide.o, narrow.o, "o of int64 indices");
    expect_same_bits(wide.state_pool, narrow.state_pool, "pool of int64 indices");
  }
}

LAWS_ON_EVERY_BACKEND(Lengths);

}  // namespace
}  // namespace laws
