// SPDX-License-Identifier: Apache-2.0
// Laws of merge_states: merging the states of disjoint key ranges is attention over their union,
// in any grouping; empty parts are the identity and their values are not read.
#include <cmath>
#include <limits>

#include "tests/op/calls/small_calls.h"
#include "tests/op/oracle/attention_law.h"

namespace laws {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class MergeStates : public AttentionLaw {
 protected:
  static MergeCall random_parts(std::int64_t rows, std::int64_t parts, std::int64_t heads,
                                std::int64_t dim, tilegate::DType dtype) {
    Random random(31);
    Tensor v = random.normals(Tensor::packed(dtype, {rows, parts, heads, dim}));
    Tensor s = random.normals(Tensor::packed(tilegate::DType::kFloat32, {rows, parts, heads}), 3.0);
    return make_merge(v, s);
  }

  void expect_formula(MergeCall call, const std::string& note) {
    if (!run(call)) return;
    std::vector<double> o, lse;
    for (std::int64_t r = 0; r < call.v.dim(0); ++r) {
      for (std::int64_t h = 0; h < call.v.dim(2); ++h) merge_row(call, r, h, o, lse);
    }
    expect_close(call.o, o, tolerance(Quantity::kAttention, call.o.dtype()), "o " + note);
    expect_close(call.lse, lse, tolerance(Quantity::kLse, tilegate::DType::kFloat32),
                 "lse " + note);
  }

 private:
  static void merge_row(const MergeCall& call, std::int64_t r, std::int64_t h,
                        std::vector<double>& o, std::vector<double>& lse) {
    double highest = -kInfinity, sum = 0.0;
    for (std::int64_t p = 0; p < call.s.dim(1); ++p)
      highest = std::max(highest, call.s.at(r, p, h));
    std::vector<double> row(static_cast<std::size_t>(call.v.dim(3)), 0.0);
    for (std::int64_t p = 0; p < call.s.dim(1) && highest > -kInfinity; ++p) {
      const double weight = std::exp2(call.s.at(r, p, h) - highest);
      if (weight == 0.0) continue;
      sum += weight;
      for (std::size_t d = 0; d < row.size(); ++d) row[d] += weight * call.v.at(r, p, h, d);
    }
    for (double& x : row) x = sum > 0.0 ? x / sum : 0.0;
    o.insert(o.end(), row.begin(), row.end());
    lse.push_back(highest > -kInfinity ? highest + std::log2(sum) : -kInfinity);
  }
};

TEST_P(MergeStates, IsTheFormula) {
  for (tilegate::DType dtype : float_dtypes()) {
    for (const std::int64_t parts : {1, 2, 3, 4, 5, 7, 9, 17}) {
      expect_formula(random_parts(5, parts, 3, 40, dtype), std::to_string(parts) + " parts");
    }
    expect_formula(random_parts(3, 3, 70, 64, dtype), "rows of many heads");
  }
}

TEST_P(MergeStates, EmptyPartIsTheIdentity) {
  for (tilegate::DType dtype : float_dtypes()) {
    MergeCall call = random_parts(4, 3, 2, 64, dtype);
    for (std::int64_t r = 0; r < 4; ++r) {
      for (std::int64_t h = 0; h < 2; ++h) {
        for (const std::int64_t p : {0, 2}) {
          call.s.set(-kInfinity, r, p, h);
          call.v.select(0, r).select(0, p).select(0, h).poison();
        }
      }
    }
    if (!run(call)) continue;
    expect_close(call.lse, call.s.select(1, 1), {1e-7, 1e-7}, "lse beside empty parts");
    expect_close(call.o, call.v.select(1, 1), {1e-7, 1e-7}, "o beside empty parts");
  }
}

TEST_P(MergeStates, AllPartsEmpty) {
  for (const std::int64_t parts : {1, 2, 5}) {
    MergeCall call = random_parts(3, parts, 2, 8, tilegate::DType::kFloat32);
    call.s.fill(-kInfinity);
    call.v.poison();
    if (!run(call)) continue;
    expect_all(call.o, 0.0, "o of empty parts");
    expect_all(call.lse, -kInfinity, "lse of empty parts");
  }
}

TEST_P(MergeStates, ANaNScoreStaysInItsRowAndIsNotAnEmptyPart) {
  for (const std::int64_t parts : {1, 3}) {
    MergeCall call = random_parts(3, parts, 2, 8, tilegate::DType::kFloat32);
    call.s.select(0, 1).select(0, 0).select(0, 1).poison();
    MergeCall clean = random_parts(3, parts, 2, 8, tilegate::DType::kFloat32);
    if (!run(call) || !run(clean)) continue;
    EXPECT_TRUE(std::isnan(call.lse.at(1, 1))) << call.lse.at(1, 1);
    EXPECT_TRUE(std::isnan(call.o.at(1, 1, 0))) << call.o.at(1, 1, 0);
    expect_same_bits(call.o.select(0, 2), clean.o.select(0, 2), "o of another row");
    EXPECT_EQ(call.lse.at(1, 0), clean.lse.at(1, 0));
  }
}

TEST_P(MergeStates, NoRowsOrNoLse) {
  MergeCall none = random_parts(0, 2, 2, 8, tilegate::DType::kFloat32);
  run(none);
  MergeCall with = random_parts(3, 2, 2, 8, tilegate::DType::kFloat32);
  MergeCall without = make_merge(with.v, with.s);
  without.lse = {};
  if (run(with) && run(without)) expect_same_bits(without.o, with.o, "o without lse");
}

TEST_P(MergeStates, StridedParts) {
  MergeCall packed = random_parts(4, 3, 2, 16, tilegate::DType::kBFloat16);
  MergeCall strided =
      make_merge(packed.v.with_strides({500, 40, 130, 1}), packed.s.with_strides({31, 2, 9}));
  strided.o = Tensor::strided(tilegate::DType::kBFloat16, {4, 2, 16}, {50, 20, 1});
  if (run(packed) && run(strided)) {
    expect_same_bits(strided.o, packed.o, "o of strided parts");
    expect_same_bits(strided.lse, packed.lse, "lse of strided parts");
  }
}

// Attention over keys cut in three, merged as one call or in either order of two, is the whole.
TEST_P(MergeStates, IsAssociativeAndEqualsAttentionOverTheUnion) {
  for (tilegate::DType dtype : float_dtypes()) {
    const AttentionCall whole =
        make_ragged({.qo_lens = {6}, .kv_lens = {50}, .dtype = dtype, .spare_rows = 0});
    const Dims cuts = {0, 8, 30, 50};
    Tensor v = Tensor::packed(dtype, {6, 3, 4, 64});
    Tensor s = Tensor::packed(tilegate::DType::kFloat32, {6, 3, 4});
    for (std::size_t p = 0; p < 3; ++p) {
      AttentionCall part = whole;
      part.reset_outputs();
      part.k = part.keys = whole.keys.slice(0, cuts[p], cuts[p + 1]);
      part.v = part.values = whole.values.slice(0, cuts[p], cuts[p + 1]);
      part.kv_lens = {cuts[p + 1] - cuts[p]};
      part.kv_indptr = Tensor::indices({0, part.kv_lens[0]});
      if (!run(part)) {  // no prefill here: the parts are the oracle's
        const AttentionAnswer answer = attention_oracle(part);
        part.o.assign(answer.o);
        part.lse.assign(answer.lse);
      }
      v.select(1, static_cast<std::int64_t>(p)).copy_from(part.o);
      s.select(1, static_cast<std::int64_t>(p)).copy_from(part.lse);
    }
    MergeCall all = make_merge(v, s);
    MergeCall left = make_merge(v.slice(1, 0, 2), s.slice(1, 0, 2));
    MergeCall right = make_merge(v.slice(1, 1, 3), s.slice(1, 1, 3));
    if (!run(all) || !run(left) || !run(right)) continue;
    const auto pair = [&](const MergeCall& merged, std::int64_t other) {
      Tensor pv = Tensor::packed(dtype, {6, 2, 4, 64});
      Tensor ps = Tensor::packed(tilegate::DType::kFloat32, {6, 2, 4});
      pv.select(1, 0).copy_from(merged.o);
      ps.select(1, 0).copy_from(merged.lse);
      pv.select(1, 1).copy_from(v.select(1, other));
      ps.select(1, 1).copy_from(s.select(1, other));
      return make_merge(pv, ps);
    };
    MergeCall left_first = pair(left, 2), right_first = pair(right, 0);
    if (!run(left_first) || !run(right_first)) continue;
    const AttentionAnswer expected = attention_oracle(whole);
    for (const MergeCall* merged : {&all, &left_first, &right_first}) {
      expect_close(merged->o, expected.o, tolerance(Quantity::kAttention, dtype), "merged o");
      expect_close(merged->lse, expected.lse, tolerance(Quantity::kLse, dtype), "merged lse");
    }
  }
}

LAWS_ON_EVERY_BACKEND(MergeStates);

}  // namespace
}  // namespace laws
