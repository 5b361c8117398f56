// SPDX-License-Identifier: Apache-2.0
// Laws of the logits: scale is a value (0 and negative too), soft cap, sinks, lse in both bases,
// and logits of any size keep their exact answer: no finite sentinel stands for -inf.
#include <cmath>
#include <numbers>

#include "tests/op/oracle/attention_law.h"

namespace laws {
namespace {

class Logits : public AttentionLaw {
 protected:
  static AttentionCall small(tilegate::DType dtype = plain_dtype()) {
    return make_ragged({.qo_lens = {4, 4}, .kv_lens = {6, 21}, .dtype = dtype});
  }
  static Tensor sinks(std::int64_t heads) {
    return Random(11).normals(Tensor::packed(tilegate::DType::kFloat32, {heads}), 2.0);
  }
};

TEST_P(Logits, ScaleIsAnOrdinaryValue) {
  for (const double scale : {0.0, -0.5, 0.01, 1.0}) {
    AttentionCall call = small();
    call.options.scale = scale;
    expect_oracle_in_every_form(call, "scale " + std::to_string(scale));
  }
}

TEST_P(Logits, ScaleZeroIsTheMeanOfTheVisibleValues) {
  AttentionCall ragged = small();
  ragged.options.scale = 0.0;
  const double close = tolerance(Quantity::kAttention, ragged.o.dtype()).max_rel;
  for (AttentionCall call : {ragged, as_paged(ragged), as_decode(ragged)}) {
    if (!run(call)) continue;
    for (std::int64_t d = 0; d < 64; ++d) {  // of a row that sees all six keys
      double mean = 0.0;
      for (std::int64_t j = 0; j < 6; ++j) mean += call.values.at(j, 1, d) / 6.0;
      EXPECT_NEAR(call.o.at(3, 3, d), mean, close);
    }
    EXPECT_NEAR(call.lse.at(3, 3), std::log2(6.0), 1e-5);
  }
}

TEST_P(Logits, SoftCap) {
  for (const double cap : {0.5, 5.0, 50.0}) {
    for (tilegate::DType dtype : float_dtypes()) {
      AttentionCall call = small(dtype);
      call.options.logits_soft_cap = cap;
      call.options.scale = 1.0;
      expect_oracle_in_every_form(call, "cap " + std::to_string(cap));
    }
  }
}

TEST_P(Logits, SinksAreOneMoreLogitUnscaledAndUncapped) {
  for (tilegate::DType dtype : float_dtypes()) {
    AttentionCall call = small(dtype);
    call.sinks = sinks(4);
    call.options.causal = true;
    expect_oracle_in_every_form(call, "sink");
    call.options.logits_soft_cap = 2.0;
    call.options.window_left = 3;
    expect_oracle_in_every_form(call, "sink, cap, window");
  }
}

TEST_P(Logits, SinksOfAnySize) {
  for (const double sink : {-100.0, 8.0, 20.0, -1e30}) {
    // Beside a sink of 20 the values are of 1e-9, which fp16 does not have.
    AttentionCall call = small(sink == 20.0 ? tilegate::DType::kBFloat16 : plain_dtype());
    call.sinks = Tensor::packed(tilegate::DType::kFloat32, {4}).fill(sink);
    expect_oracle_in_every_form(call, "sink " + std::to_string(sink));
  }
}

TEST_P(Logits, NaturalLseIsTheBase2LseTimesLn2) {
  AttentionCall base2 = small();
  base2.sinks = sinks(4);
  for (AttentionCall call : {base2, as_paged(base2), as_decode(base2)}) {
    AttentionCall natural = call;
    natural.options.lse_base = tilegate::LseBase::kNatural;
    natural.reset_outputs();
    expect_oracle(natural);
    if (!run(call) || !run(natural)) continue;
    expect_same_bits(natural.o_rows(), call.o_rows(), "o does not depend on the lse's base");
    for (std::int64_t i = 0; i < call.rows() * 4; ++i) {
      EXPECT_NEAR(natural.lse.flat(i), call.lse.flat(i) * std::numbers::ln2, 1e-5);
    }
  }
}

TEST_P(Logits, LseIsOptional) {
  AttentionCall with = small();
  for (AttentionCall call : {with, as_paged(with), as_decode(with)}) {
    AttentionCall without = call;
    without.reset_outputs();
    without.lse = {};
    if (run(call) && run(without))
      expect_same_bits(without.o_rows(), call.o_rows(), "o without lse");
  }
}

// 512 * -1024 and 512 * -1024 + 512: far below any sentinel such as -1e5, exact in every dtype.
TEST_P(Logits, AllLogitsFarBelowZeroStayExact) {
  for (tilegate::DType dtype : float_dtypes()) {
    AttentionCall ragged = make_ragged({.qo_lens = {2, 2}, .kv_lens = {3, 50}, .dtype = dtype});
    for (Tensor* t : {&ragged.q, &ragged.keys, &ragged.k}) t->fill(0.0);
    for (std::int64_t r = 0; r < ragged.q.dim(0); ++r) {
      for (std::int64_t h = 0; h < 4; ++h) ragged.q.set(512.0, r, h, 0);
    }
    for (Tensor* t : {&ragged.keys, &ragged.k}) {
      for (std::int64_t r = 0; r < t->dim(0); ++r) {
        for (std::int64_t h = 0; h < 2; ++h) t->set(-1024.0, r, h, 0);
      }
    }
    ragged.options.scale = 1.0;
    expect_oracle_in_every_form(ragged, "all logits -524288");
    ragged.options.causal = true;
    expect_oracle_in_every_form(ragged, "all logits -524288, causal");
    AttentionCall call = as_decode(ragged);
    if (!run(call)) continue;
    EXPECT_NEAR(call.lse.at(3, 0), -524288.0 * std::numbers::log2e + std::log2(50.0), 0.1);
  }
}

// One logit 80 above the others: their probabilities vanish without a NaN on the way.
TEST_P(Logits, OneKeyDominates) {
  AttentionCall ragged =
      make_ragged({.qo_lens = {1}, .kv_lens = {70}, .heads_q = 1, .heads_kv = 1, .dim_qk = 64});
  for (const std::int64_t winner : {0, 35, 69}) {
    for (Tensor* t : {&ragged.keys, &ragged.k}) {
      t->slice(0, 0, 70).fill(0.0);
      t->slice(0, winner, winner + 1).fill(8.0);
    }
    ragged.q.slice(0, 0, 1).fill(1.0);
    ragged.options.scale = 1.0;
    expect_oracle_in_every_form(ragged, "key " + std::to_string(winner));
  }
}

LAWS_ON_EVERY_BACKEND(Logits);

}  // namespace
}  // namespace laws
