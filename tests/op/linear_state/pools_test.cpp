// SPDX-License-Identifier: Apache-2.0
// Laws of state pools: a read slot < 0 zeroes the output and moves nothing, a write slot < 0 stores
// nothing, read and write slots may differ, a fresh slot may hold NaN, slots of nobody keep their
// bytes; all the same for every op and dtype.
#include "tests/op/oracle/delta_law.h"

namespace laws {
namespace {

using tilegate::DeltaRule;
using tilegate::DType;

constexpr DType kFloats[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};
constexpr DeltaRule kEveryRule[] = {DeltaRule::kGatedDeltaRule, DeltaRule::kGatedDeltaRule2,
                                    DeltaRule::kGatedDeltaProduct, DeltaRule::kKda,
                                    DeltaRule::kGatedDeltaRuleDecode};

class StatePools : public DeltaLaw {
 protected:
  // Four sequences (of equal length for decode) with own states.
  static DeltaCall call_of(DeltaRule rule, DType dtype = DType::kFloat32,
                           DType state = DType::kFloat32) {
    DeltaShape shape;
    shape.rule = rule;
    shape.lens = lengths({3, 70, 1, 20});
    if (rule == DeltaRule::kGatedDeltaRuleDecode) shape.lens = {4, 4, 4, 4};
    shape.dim_k = shape.dim_v = 32;
    shape.dtype = dtype;
    shape.state_dtype = state;
    shape.householder = rule == DeltaRule::kGatedDeltaProduct ? 2 : 1;
    return make_delta(shape);
  }
  static std::int64_t slot(const Tensor& indices, std::int64_t i) {
    return static_cast<std::int64_t>(indices.at(i));
  }
  // Slots of `after` that no index names are `before`'s, bit for bit.
  static void expect_others_kept(const Tensor& after, const Tensor& before, const Tensor& written) {
    for (std::int64_t s = 0; s < before.dim(0); ++s) {
      bool named = false;
      for (std::int64_t i = 0; i < written.numel(); ++i) named = named || slot(written, i) == s;
      if (!named) expect_same_bits(after.select(0, s), before.select(0, s), "a slot of nobody");
    }
  }
};

TEST_P(StatePools, InPlaceEqualsOwnStates) {
  for (const DeltaRule rule : kEveryRule) {
    for (const DType dtype : kFloats) {
      for (const DType state : kFloats) {
        DeltaCall own = call_of(rule, dtype, state);
        DeltaCall pooled = call_of(rule, dtype, state);
        pooled.use_pool(3);
        const Tensor before = pooled.state_pool.clone();
        expect_oracle(own);
        if (!run(own) || !run(pooled)) continue;
        expect_same_bits(pooled.o, own.o, "o of a pool");
        for (std::int64_t i = 0; i < 4; ++i) {
          expect_same_bits(pooled.state_pool.select(0, slot(pooled.state_indices, i)),
                           own.output_state.select(0, i), "slot of a pool");
        }
        expect_others_kept(pooled.state_pool, before, pooled.state_indices);
      }
    }
  }
}

TEST_P(StatePools, NegativeReadSlotsMoveNothing) {
  for (const DeltaRule rule : kEveryRule) {
    for (const DType dtype : kFloats) {
      for (const DType state : {DType::kFloat32, DType::kBFloat16}) {
        DeltaCall full = call_of(rule, dtype, state);
        full.use_pool();
        DeltaCall call = call_of(rule, dtype, state);
        call.use_pool();
        const Tensor before = call.state_pool.clone();
        call.state_indices.set(-1, 1);
        call.state_indices.set(-7, 3);
        if (!run(full) || !run(call)) continue;
        for (const std::size_t skipped : {1, 3}) {
          expect_all(call.o_of(skipped), 0.0, "o of a skipped sequence, " + label(call));
        }
        for (const std::size_t kept : {0, 2}) {
          expect_same_bits(call.o_of(kept), full.o_of(kept), "o beside a skipped sequence");
        }
        expect_others_kept(call.state_pool, before, call.state_indices);
      }
    }
  }
}

TEST_P(StatePools, NegativeReadBesideAWriteSlotWritesNothing) {
  for (const DeltaRule rule : kEveryRule) {
    DeltaCall call = call_of(rule);
    call.use_pool(6);
    const Tensor before = call.state_pool.clone();
    const Tensor reads = call.state_indices.clone();
    call.output_state_indices = call.state_indices.clone();
    call.state_indices.set(-1, 0);
    if (!run(call)) continue;
    expect_all(call.o_of(0), 0.0, "o of a skipped sequence");
    expect_same_bits(call.state_pool.select(0, slot(reads, 0)), before.select(0, slot(reads, 0)),
                     "write slot of a skipped sequence");
  }
}

TEST_P(StatePools, NegativeWriteSlotsStoreNothing) {
  for (const DeltaRule rule : kEveryRule) {
    for (const DType state : kFloats) {
      DeltaCall full = call_of(rule, DType::kFloat32, state);
      full.use_pool();
      DeltaCall call = call_of(rule, DType::kFloat32, state);
      call.use_pool();
      const Tensor before = call.state_pool.clone();
      call.output_state_indices = call.state_indices.clone();
      call.output_state_indices.set(-1, 1);
      call.output_state_indices.set(-1, 2);
      if (!run(full) || !run(call)) continue;
      expect_same_bits(call.o, full.o, "o does not depend on write slots");
      expect_others_kept(call.state_pool, before, call.output_state_indices);
    }
  }
}

TEST_P(StatePools, ReadAndWriteSlotsMayDiffer) {
  for (const DeltaRule rule : kEveryRule) {
    DeltaCall call = call_of(rule);
    call.use_pool(6);
    const Tensor before = call.state_pool.clone();
    std::vector<std::int64_t> free;
    for (std::int64_t s = 0; s < before.dim(0); ++s) {
      bool used = false;
      for (std::int64_t i = 0; i < 4; ++i) used = used || slot(call.state_indices, i) == s;
      if (!used) free.push_back(s);
    }
    free.resize(4);
    call.output_state_indices = Tensor::indices(free);
    if (!expect_oracle(call)) continue;
    expect_others_kept(call.state_pool, before, call.output_state_indices);
  }
}

TEST_P(StatePools, AnotherOutputPool) {
  for (const DeltaRule rule : kEveryRule) {
    for (const DType out : kFloats) {
      DeltaCall call = call_of(rule);
      call.use_pool(1);
      Dims shape = call.state_pool.shape();
      shape[0] = 9;
      call.output_state_pool = Tensor::packed(out, shape);
      call.output_state_indices = Tensor::indices({8, 0, 5, 2});
      if (!expect_oracle(call, "output pool")) continue;
      for (const std::int64_t s : {1, 3, 4, 6, 7}) {
        expect_untouched(call.output_state_pool.select(0, s), "a slot of nobody");
      }
    }
  }
}

TEST_P(StatePools, FreshSequencesDoNotReadTheirReusedSlot) {
  for (const DeltaRule rule : kEveryRule) {
    for (const DType dtype : kFloats) {
      for (const DType state : kFloats) {
        for (const DType flag : {DType::kUInt8, DType::kBool}) {
          DeltaCall call = call_of(rule, dtype, state);
          call.use_pool();
          call.has_initial_state = Tensor::bytes({0, 1, 0, 1}, flag);
          call.state_pool.select(0, slot(call.state_indices, 0)).poison();
          call.state_pool.select(0, slot(call.state_indices, 2)).poison();
          expect_oracle(call, "fresh slots");
        }
      }
    }
  }
}

TEST_P(StatePools, FreshSequencesOfOwnStates) {
  for (const DeltaRule rule : kEveryRule) {
    DeltaCall call = call_of(rule);
    call.has_initial_state = Tensor::bytes({1, 0, 0, 200});
    call.initial_state.slice(0, 1, 3).poison();
    expect_oracle(call, "has_initial_state without a pool");
  }
}

TEST_P(StatePools, WithoutIndicesSequenceIUsesSlotI) {
  for (const DeltaRule rule : kEveryRule) {
    DeltaCall named = call_of(rule);
    named.use_pool(0);
    named.state_indices = Tensor::indices({0, 1, 2, 3});
    DeltaCall call = named;
    call.reset_outputs();
    call.state_pool = named.state_pool.clone();
    call.state_indices = {};
    if (!run(named) || !run(call)) continue;
    expect_same_bits(call.o, named.o, "o without indices");
    expect_same_bits(call.state_pool, named.state_pool, "pool without indices");
  }
}

TEST_P(StatePools, EmptySequencesKeepOrMoveTheirSlot) {
  for (const DeltaRule rule : kChunkRules) {
    for (const DType state : kFloats) {
      DeltaShape shape;
      shape.rule = rule;
      shape.lens = {0, 5, 0};
      shape.dim_k = shape.dim_v = key_dim(16);
      shape.state_dtype = state;
      DeltaCall call = make_delta(shape);
      call.use_pool(4);
      call.output_state_indices = call.state_indices.clone();
      std::int64_t target = 0;
      const auto taken = [&](std::int64_t s) {
        return s == slot(call.state_indices, 0) || s == slot(call.state_indices, 1) ||
               s == slot(call.state_indices, 2);
      };
      while (taken(target)) ++target;
      call.output_state_indices.set(static_cast<double>(target), 2);
      const Tensor before = call.state_pool.clone();
      if (!run(call)) continue;
      const std::int64_t first = slot(call.state_indices, 0), last = slot(call.state_indices, 2);
      expect_same_bits(call.state_pool.select(0, first), before.select(0, first), "kept slot");
      expect_same_bits(call.state_pool.select(0, target), before.select(0, last), "moved slot");
    }
  }
}

TEST_P(StatePools, TwoWritersOfOneSlotAreRejectedWhereValuesAreChecked) {
  if (!on_cpu_device()) GTEST_SKIP() << "index values are the caller's promise on a GPU";
  DeltaCall call = call_of(DeltaRule::kGatedDeltaRule);
  call.use_pool();
  call.state_indices.set(call.state_indices.at(0), 2);
  tilegate::Status status = attempt(call);
  EXPECT_EQ(status.code(), tilegate::StatusCode::kInvalidArgument) << status.to_string();
  EXPECT_NE(status.message().find("state_indices"), std::string::npos) << status.message();
  DeltaCall outside = call_of(DeltaRule::kGatedDeltaRule);
  outside.use_pool();
  outside.state_indices.set(6, 3);
  status = attempt(outside);
  EXPECT_EQ(status.code(), tilegate::StatusCode::kInvalidArgument) << status.to_string();
  EXPECT_NE(status.message().find("state_indices"), std::string::npos) << status.message();
}

LAWS_ON_EVERY_BACKEND(StatePools);

}  // namespace
}  // namespace laws
