// SPDX-License-Identifier: Apache-2.0
// Laws between the ops: GDP with n = 1 is GDN bit for bit; GDN-2 with scalar factors is KDA, KDA
// with a scalar gate is GDN, GDP with silent rows is GDN, decode is GDN with its gates spelled out.
#include <cmath>

#include "tests/op/oracle/delta_law.h"

namespace laws {
namespace {

using tilegate::DeltaRule;
using tilegate::DType;

constexpr DType kFloats[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};

class Collapses : public DeltaLaw {
 protected:
  void expect_agree(DeltaCall a, DeltaCall b, const std::string& note) {
    a.reset_outputs();
    b.reset_outputs();
    if (!run(a) || !run(b)) return;
    expect_close(b.o_rows(), a.o_rows(), tolerance(Quantity::kDelta, a.o.dtype()), "o, " + note);
    expect_close(b.output_state, a.output_state,
                 tolerance(Quantity::kState, state_precision(a, a.output_state)), "state, " + note);
  }
  // [T, HO] to [T, HO, width].
  static Tensor spread(const Tensor& per_head, std::int64_t width) {
    Tensor wide = Tensor::packed(per_head.dtype(), {per_head.dim(0), per_head.dim(1), width});
    for (std::int64_t i = 0; i < width; ++i) {
      wide.slice(2, i, i + 1).copy_from(per_head);
    }
    return wide;
  }
};

TEST_P(Collapses, GdpOfOneRowIsGdnBitForBit) {
  for (const DType dtype : kFloats) {
    for (const bool optional : {false, true}) {
      DeltaShape shape;
      shape.lens = lengths({70, 0, 1, 129});
      shape.dtype = dtype;
      DeltaCall gdn = make_delta(shape);
      if (!optional) gdn.g = gdn.beta = gdn.initial_state = {};
      gdn.options.use_qk_l2norm = optional;
      gdn.add_checkpoints(16, tilegate::CheckpointPosition::kAfter, DType::kFloat32);
      DeltaCall gdp = gdn;
      gdp.rule = DeltaRule::kGatedDeltaProduct;
      gdp.reset_outputs();
      if (!run(gdn) || !run(gdp)) continue;
      expect_same_bits(gdp.o, gdn.o, "o of GDP n = 1");
      expect_same_bits(gdp.output_state, gdn.output_state, "state of GDP n = 1");
      expect_same_bits(gdp.state_checkpoints, gdn.state_checkpoints, "checkpoints of GDP n = 1");
    }
  }
}

TEST_P(Collapses, Gdn2WithScalarFactorsIsKda) {
  for (const DType dtype : kFloats) {
    DeltaShape shape;
    shape.rule = DeltaRule::kKda;
    shape.lens = lengths({70, 33});
    shape.dtype = dtype;
    const DeltaCall kda = make_delta(shape);
    DeltaCall gdn2 = kda;
    gdn2.rule = DeltaRule::kGatedDeltaRule2;
    gdn2.beta = spread(kda.beta, 64);
    gdn2.w = spread(kda.beta, 64);
    expect_agree(kda, gdn2, "GDN-2 as KDA");
  }
}

TEST_P(Collapses, KdaWithAScalarGateIsGdn) {
  for (const DType dtype : kFloats) {
    DeltaShape shape;
    shape.lens = lengths({70, 33});
    shape.dtype = dtype;
    const DeltaCall gdn = make_delta(shape);
    DeltaCall kda = gdn;
    kda.rule = DeltaRule::kKda;
    kda.g = spread(gdn.g, 64);
    for (std::int64_t i = 0; i < kda.tokens() * 2 * 64; ++i) {
      kda.g.set_flat(i, std::log(kda.g.flat(i)));
    }
    expect_agree(gdn, kda, "KDA as GDN");
  }
}

TEST_P(Collapses, GdpWithSilentRowsIsGdn) {
  for (const std::int64_t n : {2, 3}) {
    for (std::int64_t active = 0; active < n; ++active) {
      DeltaShape shape;
      shape.lens = lengths({70, 33});
      const DeltaCall gdn = make_delta(shape);
      shape.rule = DeltaRule::kGatedDeltaProduct;
      shape.householder = n;
      shape.seed = 5;
      DeltaCall gdp = make_delta(shape);
      gdp.q = gdn.q;
      gdp.g = gdn.g;
      gdp.initial_state = gdn.initial_state;
      for (std::int64_t t = 0; t < gdn.tokens(); ++t) {
        for (std::int64_t r = 0; r < n; ++r) gdp.beta.select(0, t * n + r).fill(0.0);
        gdp.k.select(0, t * n + active).copy_from(gdn.k.select(0, t));
        gdp.v.select(0, t * n + active).copy_from(gdn.v.select(0, t));
        gdp.beta.select(0, t * n + active).copy_from(gdn.beta.select(0, t));
      }
      expect_agree(gdn, gdp, "GDP with silent rows as GDN");
    }
  }
}

// GDP over T tokens is GDN over T * n rows whose gate is 1 inside a token, read at its last row.
TEST_P(Collapses, GdpIsGdnOverItsRows) {
  const std::int64_t n = 3, count = tokens(150) / n;
  DeltaShape shape;
  shape.rule = DeltaRule::kGatedDeltaProduct;
  shape.householder = n;
  shape.lens = {count};
  shape.spare_rows = 0;
  DeltaCall gdp = make_delta(shape);
  shape.rule = DeltaRule::kGatedDeltaRule;
  shape.householder = 1;
  shape.lens = {count * n};
  DeltaCall gdn = make_delta(shape);
  gdn.k = gdp.k;
  gdn.v = gdp.v;
  gdn.beta = gdp.beta;
  gdn.initial_state = gdp.initial_state;
  gdn.g.fill(1.0);
  for (std::int64_t t = 0; t < count; ++t) {
    gdn.g.select(0, t * n).copy_from(gdp.g.select(0, t));
    gdn.q.select(0, t * n + n - 1).copy_from(gdp.q.select(0, t));
  }
  if (!run(gdp) || !run(gdn)) return;
  const Tolerance close = tolerance(Quantity::kDelta, DType::kFloat32);
  for (std::int64_t t = 0; t < count; ++t) {
    expect_close(gdn.o.select(0, t * n + n - 1), gdp.o.select(0, t), close, "o of GDN over rows");
  }
  expect_close(gdn.output_state, gdp.output_state, close, "state of GDN over rows");
}

TEST_P(Collapses, KdaRawGatesAreTheirActivatedValues) {
  DeltaShape shape;
  shape.rule = DeltaRule::kKda;
  DeltaCall raw = make_delta(shape);
  Random random(61);
  random.normals(raw.g.slice(0, 0, raw.tokens()), 2.0);
  raw.a_log = random.uniforms(Tensor::packed(DType::kFloat32, {2}), -2.0, 0.0);
  raw.dt_bias = random.normals(Tensor::packed(DType::kFloat32, {2, 64}));
  raw.options.use_gate_in_kernel = true;
  DeltaCall plain = raw;
  plain.options.use_gate_in_kernel = false;
  plain.g = raw.g.clone();
  for (std::int64_t t = 0; t < raw.tokens(); ++t) {
    for (std::int64_t h = 0; h < 2; ++h) {
      for (std::int64_t i = 0; i < 64; ++i) {
        const double x = raw.g.at(t, h, i) + raw.dt_bias.at(h, i);
        plain.g.set(-std::exp(raw.a_log.at(h)) * std::log1p(std::exp(x)), t, h, i);
      }
    }
  }
  plain.a_log = plain.dt_bias = {};
  expect_agree(raw, plain, "activated gates");
}

LAWS_ON_EVERY_BACKEND(Collapses);

}  // namespace
}  // namespace laws
