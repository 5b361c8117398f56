// SPDX-License-Identifier: Apache-2.0
// Law: hard keys stay accurate. With beta 1 and no decay every update projects its key out; near
// parallel, identical and alternating keys make the chunk's triangular system as stiff as it gets.
#include <cmath>

#include "tests/op/oracle/delta_law.h"

namespace laws {
namespace {

using tilegate::DeltaRule;
using tilegate::DType;

class Keys : public DeltaLaw {
 protected:
  static DeltaCall undamped(DeltaRule rule, DType dtype) {
    DeltaShape shape;
    shape.rule = rule;
    shape.lens = lengths({150});
    shape.dim_k = shape.dim_v = 32;
    shape.dtype = dtype;
    shape.householder = rule == DeltaRule::kGatedDeltaProduct ? 2 : 1;
    DeltaCall call = make_delta(shape);
    call.g = call.beta = call.w = {};
    return call;
  }
  static void set_key(DeltaCall& call, std::int64_t row, const std::vector<double>& key) {
    for (std::int64_t h = 0; h < call.k.dim(1); ++h) {
      for (std::size_t i = 0; i < key.size(); ++i) call.k.set(key[i], row, h, i);
    }
  }
  // A unit vector with the given cosine to `axis`.
  static std::vector<double> near(Random& random, const std::vector<double>& axis, double cosine) {
    std::vector<double> other(axis.size());
    double along = 0.0, square = 0.0;
    for (std::size_t i = 0; i < axis.size(); ++i) {
      other[i] = random.normal();
      along += other[i] * axis[i];
    }
    for (std::size_t i = 0; i < axis.size(); ++i) {
      other[i] -= along * axis[i];
      square += other[i] * other[i];
    }
    const double sine = std::sqrt(1.0 - cosine * cosine);
    for (std::size_t i = 0; i < axis.size(); ++i) {
      other[i] = cosine * axis[i] + sine * other[i] / std::sqrt(square);
    }
    return other;
  }
  static std::vector<double> axis() {
    std::vector<double> e(32, 0.0);
    e[0] = 0.6;
    e[1] = -0.8;
    return e;
  }
};

TEST_P(Keys, NearParallel) {
  for (const DeltaRule rule : kChunkRules) {
    for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
      for (const double cosine : {0.9, 0.99, 0.9999}) {
        DeltaCall call = undamped(rule, dtype);
        Random random(51);
        for (std::int64_t row = 0; row < call.tokens() * call.options.num_householder; ++row) {
          set_key(call, row, near(random, axis(), cosine));
        }
        expect_oracle(call, "cosine " + std::to_string(cosine));
      }
    }
  }
}

TEST_P(Keys, Identical) {
  for (const DeltaRule rule : kChunkRules) {
    for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
      DeltaCall call = undamped(rule, dtype);
      for (std::int64_t row = 0; row < call.tokens() * call.options.num_householder; ++row) {
        set_key(call, row, axis());
      }
      expect_oracle(call, "identical keys");
    }
  }
}

TEST_P(Keys, Alternating) {
  for (const DeltaRule rule : kChunkRules) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      DeltaCall call = undamped(rule, dtype);
      for (std::int64_t row = 0; row < call.tokens() * call.options.num_householder; ++row) {
        std::vector<double> key = axis();
        for (double& x : key) x *= row % 2 == 0 ? 1.0 : -1.0;
        set_key(call, row, key);
      }
      expect_oracle(call, "alternating keys");
    }
  }
}

TEST_P(Keys, ZeroKeysChangeNothing) {
  for (const DeltaRule rule : kChunkRules) {
    DeltaCall call = undamped(rule, DType::kFloat32);
    call.k.slice(0, 0, call.tokens() * call.options.num_householder).fill(0.0);
    expect_oracle(call, "zero keys");
    call.reset_outputs();
    if (run(call)) expect_same_bits(call.output_state, call.initial_state, "state of zero keys");
  }
}

// Short keys barely erase: the state grows with every token instead of turning.
TEST_P(Keys, WeakKeys) {
  for (const DeltaRule rule : kChunkRules) {
    DeltaCall call = undamped(rule, DType::kFloat32);
    const std::int64_t rows = call.tokens() * call.options.num_householder;
    for (std::int64_t i = 0; i < rows * call.k.dim(1) * 32; ++i) {
      call.k.set_flat(i, 0.05 * call.k.flat(i));
    }
    expect_oracle(call, "weak keys");
  }
}

LAWS_ON_EVERY_BACKEND(Keys);

}  // namespace
}  // namespace laws
