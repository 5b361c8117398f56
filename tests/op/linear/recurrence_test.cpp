// SPDX-License-Identifier: Apache-2.0
// Law: outputs and final states are the recurrence's, for every op, dtype, head map and gate mode.
#include "tests/op/oracle/delta_law.h"

namespace laws {
namespace {

using tilegate::DeltaRule;
using tilegate::DType;

constexpr DType kFloats[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};

class Recurrence : public DeltaLaw {};

DeltaShape shape_of(DeltaRule rule) {
  DeltaShape shape;
  shape.rule = rule;
  shape.householder = rule == DeltaRule::kGatedDeltaProduct ? 2 : 1;
  return shape;
}

TEST_P(Recurrence, EveryOpAndDtype) {
  for (const DeltaRule rule : kChunkRules) {
    for (const DType dtype : kFloats) {
      DeltaShape shape = shape_of(rule);
      shape.lens = lengths({70, 1, 129});
      shape.dtype = dtype;
      expect_oracle(make_delta(shape));
    }
  }
}

TEST_P(Recurrence, FullSizeHeads) {
  for (const DeltaRule rule : kChunkRules) {
    for (const std::int64_t dim : {128, 256}) {
      DeltaShape shape = shape_of(rule);
      shape.lens = lengths({67});
      shape.heads_q = shape.heads_k = shape.heads_v = 1;
      shape.dim_k = shape.dim_v = dim;
      shape.dtype = DType::kBFloat16;
      expect_oracle(make_delta(shape));
    }
  }
}

TEST_P(Recurrence, SmallAndUnequalHeadDims) {
  struct Pair {
    std::int64_t k, v;
  };
  for (const DeltaRule rule : kChunkRules) {
    for (const Pair dim : {Pair{8, 8}, {24, 40}, {64, 16}, {16, 72}}) {
      DeltaShape shape = shape_of(rule);
      shape.dim_k = dim.k;
      shape.dim_v = dim.v;
      expect_oracle(make_delta(shape));
    }
  }
}

// Not multiples of a vector: served right or rejected by name, never wrong.
TEST_P(Recurrence, OddHeadDims) {
  may_reject();
  for (const DeltaRule rule : kChunkRules) {
    for (const std::int64_t dim : {1, 5, 20, 65}) {
      DeltaShape shape = shape_of(rule);
      shape.dim_k = dim;
      shape.dim_v = dim + 2;
      shape.dtype = DType::kFloat16;
      expect_oracle(make_delta(shape));
    }
  }
}

TEST_P(Recurrence, HeadMaps) {
  struct Heads {
    std::int64_t q, k, v;
  };
  for (const DeltaRule rule : kChunkRules) {
    for (const Heads heads :
         {Heads{4, 2, 2}, {4, 4, 2}, {1, 1, 3}, {2, 2, 6}, {2, 6, 6}, {3, 1, 1}}) {
      DeltaShape shape = shape_of(rule);
      shape.heads_q = heads.q;
      shape.heads_k = heads.k;
      shape.heads_v = heads.v;
      shape.dim_k = shape.dim_v = key_dim(16);
      expect_oracle(make_delta(shape));
    }
  }
}

TEST_P(Recurrence, AbsentArgumentsHaveTheirDefaults) {
  for (const DeltaRule rule : kChunkRules) {
    const DeltaCall full = make_delta(shape_of(rule));
    DeltaCall call = full;
    call.g = {};
    expect_oracle(call, "no gate");
    call = full;
    call.beta = {};
    expect_oracle(call, "no beta");
    call = full;
    call.initial_state = {};
    expect_oracle(call, "no initial state");
    if (rule == DeltaRule::kGatedDeltaRule2) {
      call = full;
      call.w = {};
      expect_oracle(call, "no w");
    }
    call = full;
    call.g = call.beta = call.w = call.initial_state = {};
    expect_oracle(call, "nothing optional");
  }
}

TEST_P(Recurrence, ScaleTouchesTheOutputOnly) {
  for (const DeltaRule rule : kChunkRules) {
    for (const double scale : {0.0, 1.0, -3.0}) {
      DeltaCall call = make_delta(shape_of(rule));
      call.options.scale = scale;
      expect_oracle(call, "scale " + std::to_string(scale));
    }
  }
}

TEST_P(Recurrence, L2Norm) {
  for (const DeltaRule rule : kChunkRules) {
    for (const DType dtype : kFloats) {
      DeltaShape shape = shape_of(rule);
      shape.dtype = dtype;
      DeltaCall call = make_delta(shape);
      call.options.use_qk_l2norm = true;
      Random random(9);
      random.normals(call.k.slice(0, 0, call.tokens() * call.options.num_householder), 5.0);
      call.k.select(0, 3).fill(0.0);  // 1e-6 under the root keeps a zero key zero
      expect_oracle(call, "l2norm");
    }
  }
}

TEST_P(Recurrence, FactorAndGateDtypes) {
  for (const DeltaRule rule : kChunkRules) {
    for (const DType gate : kFloats) {
      for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
        DeltaShape shape = shape_of(rule);
        shape.dtype = dtype;
        shape.gate_dtype = gate;
        DeltaCall call = make_delta(shape);
        call.beta = call.beta.as(dtype);
        call.w = call.w.as(dtype);
        expect_oracle(call, "gate " + std::string(tilegate::to_string(gate)));
      }
    }
  }
}

TEST_P(Recurrence, HouseholderCounts) {
  for (const std::int64_t n : {1, 2, 3, 4, 7}) {
    DeltaShape shape = shape_of(DeltaRule::kGatedDeltaProduct);
    shape.householder = n;
    shape.lens = lengths({33, 1, 40});
    expect_oracle(make_delta(shape), "n " + std::to_string(n));
  }
}

// KDA gates activated in the kernel, with A_log and dt_bias of q's heads or of the state's.
TEST_P(Recurrence, KdaRawGates) {
  for (const std::int64_t heads_v : {2, 6}) {
    for (const bool per_q_head : {false, true}) {
      for (const bool bounded : {false, true}) {
        DeltaShape shape = shape_of(DeltaRule::kKda);
        shape.heads_v = heads_v;
        DeltaCall call = make_delta(shape);
        Random random(12);
        random.normals(call.g.slice(0, 0, call.tokens()), 3.0);
        const std::int64_t heads = per_q_head ? 2 : heads_v;
        call.a_log = random.uniforms(Tensor::packed(DType::kFloat32, {heads}), -2.0, 1.0);
        call.dt_bias = random.normals(Tensor::packed(DType::kBFloat16, {heads, 64}));
        call.options.use_gate_in_kernel = true;
        if (bounded) call.options.lower_bound = -5.0;
        expect_oracle(call, bounded ? "lower bound" : "softplus");
        call.dt_bias = {};
        expect_oracle(call, "no dt_bias");
        call.a_log.set(-6.0, 0);          // slow enough that a large gate does not forget all
        call.g.select(0, 2).fill(120.0);  // softplus(x) = x above 20; exp(120) is no float
        call.g.select(0, 3).fill(-60.0);
        expect_oracle(call, "large raw gates");
      }
    }
  }
}

TEST_P(Recurrence, KdaBetaIsLogit) {
  DeltaCall call = make_delta(shape_of(DeltaRule::kKda));
  Random random(13);
  random.normals(call.beta.slice(0, 0, call.tokens()), 2.0);
  call.options.beta_is_logit = true;
  expect_oracle(call, "beta is a logit");
}

TEST_P(Recurrence, LeadingOneAndUniformBatches) {
  for (const DeltaRule rule : kChunkRules) {
    DeltaShape shape = shape_of(rule);
    shape.lens = lengths({19, 19});
    shape.spare_rows = 0;
    const DeltaCall packed = make_delta(shape);
    DeltaCall leading = packed;
    const auto batched = [](Tensor& t, std::int64_t batch) {
      if (!t.present()) return;
      Dims s = t.shape();
      s[0] /= batch;
      s.insert(s.begin(), batch);
      t = t.reshaped(s, packed_strides(s));
    };
    DeltaCall uniform = packed;
    leading.reset_outputs();
    uniform.reset_outputs();
    for (Tensor* t :
         {&leading.q, &leading.k, &leading.v, &leading.g, &leading.beta, &leading.w, &leading.o}) {
      batched(*t, 1);
    }
    for (Tensor* t :
         {&uniform.q, &uniform.k, &uniform.v, &uniform.g, &uniform.beta, &uniform.w, &uniform.o}) {
      batched(*t, 2);
    }
    uniform.cu_seqlens = {};
    DeltaCall base = packed;
    if (!run(base) || !run(leading) || !run(uniform)) continue;
    for (std::int64_t i = 0; i < base.o.numel(); ++i) {
      ASSERT_EQ(leading.o.bits(i), base.o.bits(i)) << label(packed) << " with a leading 1";
    }
    expect_close(uniform.o, values(base.o), tolerance(Quantity::kDelta, DType::kFloat32),
                 "o of a uniform batch");
    expect_close(uniform.output_state, base.output_state,
                 tolerance(Quantity::kState, DType::kFloat32), "states of a uniform batch");
  }
}

LAWS_ON_EVERY_BACKEND(Recurrence);

}  // namespace
}  // namespace laws
