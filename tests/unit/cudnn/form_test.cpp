// SPDX-License-Identifier: Apache-2.0
// Which graph an attention problem becomes, and what makes two problems share one.
#include "backend/cudnn/graph/form.h"

#include <gtest/gtest.h>

#include "tests/unit/cudnn/call.h"

namespace tilegate::cudnn {
namespace {

using namespace tilegate::test;

GraphSpec spec_of(const AttentionProblem& p) { return make_form(p, h200()).spec; }

TEST(CudnnForm, EqualLengthsAreDense) {
  CallShape shape;
  const GraphForm form = make_form(dense_problem(shape), h200());
  EXPECT_EQ(form.spec.lengths, Lengths::kDense);
  EXPECT_FALSE(form.prepares());
  EXPECT_EQ(form.layout.engine, 0u);
  EXPECT_EQ(form.spec.rows, 64);
  EXPECT_EQ(form.spec.keys, 256);
}

TEST(CudnnForm, OffsetsWithDeclaredMaximaAreTheSameGraphAsDense) {
  CallShape shape;
  const GraphSpec dense = spec_of(dense_problem(shape));
  EXPECT_NE(spec_of(ragged_problem(shape)), dense);
  shape.options.max_qo_len = shape.rows;
  shape.options.max_kv_len = shape.keys;
  EXPECT_EQ(spec_of(ragged_problem(shape)), dense);
  shape.options.max_kv_len = shape.keys + 1;  // then a request may be shorter
  EXPECT_EQ(spec_of(ragged_problem(shape)).lengths, Lengths::kPadded);
}

TEST(CudnnForm, OneUndeclaredRequestMayBeShorterThanItsRows) {
  CallShape shape{.batch = 1};
  EXPECT_EQ(spec_of(ragged_problem(shape)).lengths, Lengths::kPadded);
}

// All its requests are empty, whatever their table has room for; cuDNN takes no pool of 0 pages.
TEST(CudnnForm, APoolWithoutPagesNeedsNoGraph) {
  for (const std::int64_t rows : {1, 4}) {
    DecodePagedArgs args = decode_args({.rows = rows});
    args.k_cache.shape[0] = args.v_cache.shape[0] = 0;
    AttentionOptions options;
    options.q_len_per_req = rows;
    EXPECT_TRUE(make_form(problem_of(describe(args, options)), h200()).no_keys());
  }
}

TEST(CudnnForm, DecodeOfOneRowHasNoMask) {
  const GraphSpec spec = spec_of(decode_problem({.rows = 1}));
  EXPECT_EQ(spec.rows, 1);
  EXPECT_EQ(spec.right_keys, -1);
  EXPECT_EQ(spec.left_keys, -1);
  EXPECT_EQ(spec.q_placement, Placement::kStrided);
  EXPECT_EQ(spec.page_size, 16);
  EXPECT_EQ(spec.table_width(), 16);
}

TEST(CudnnForm, DecodeOfOneRowWithWindowHasBothBounds) {
  CallShape shape{.rows = 1};
  shape.options.window_left = 20;
  const GraphSpec spec = spec_of(decode_problem(shape));
  EXPECT_EQ(spec.left_keys, 21);
  EXPECT_EQ(spec.right_keys, 0);
}

TEST(CudnnForm, SinkOfOneRowDeclaresTwo) {
  const GraphSpec spec = spec_of(decode_problem({.rows = 1, .sinks = true}));
  EXPECT_EQ(spec.rows, 2);
  EXPECT_EQ(spec.right_keys, -1);
  EXPECT_EQ(spec.q_placement, Placement::kRagged);
}

TEST(CudnnForm, BoundsThatCannotCutAreDropped) {
  CallShape shape;
  const GraphSpec open = spec_of(dense_problem(shape));
  shape.options.window_left = shape.keys - 1;
  shape.options.window_right = shape.rows - 1;
  EXPECT_EQ(spec_of(dense_problem(shape)), open);
  shape.options.window_left = shape.keys - 2;
  EXPECT_EQ(spec_of(dense_problem(shape)).left_keys, shape.keys - 1);
}

TEST(CudnnForm, CausalWithMoreRowsThanKeysIsPadded) {
  CallShape shape{.rows = 80, .keys = 64};
  EXPECT_EQ(spec_of(dense_problem(shape)).lengths, Lengths::kDense);
  shape.options.causal = true;
  EXPECT_EQ(spec_of(dense_problem(shape)).lengths, Lengths::kPadded);
  shape.rows = 64;
  EXPECT_EQ(spec_of(dense_problem(shape)).diagonal, Diagonal::kTopLeft);
}

TEST(CudnnForm, PagedRowsAreCopiedWhereEnginesNeedIt) {
  const AttentionProblem p = paged_problem({});
  const GraphForm hopper = make_form(p, h200());
  EXPECT_EQ(hopper.copied_rows, 2 * 256);
  EXPECT_EQ(hopper.spec.page_size, 0);
  EXPECT_EQ(hopper.spec.kv_placement, Placement::kRagged);
  EXPECT_GE(hopper.layout.engine, std::size_t{2 * 256 * 2 * (128 + 128) * 2});
  DeviceFacts ampere = h200();
  ampere.compute_capability = 80;
  EXPECT_EQ(make_form(p, ampere).copied_rows, 0);
  EXPECT_EQ(make_form(paged_problem({.batch = 4096, .keys = 65536}), h200()).copied_rows, 0);
  EXPECT_EQ(make_form(decode_problem({.rows = 1}), h200()).copied_rows, 0);
}

// Whatever is baked must make another graph.
TEST(CudnnForm, EverythingBakedIsInTheKey) {
  const CallShape base;
  const GraphSpec spec = spec_of(ragged_problem(base));
  std::vector<CallShape> others(8, base);
  others[0].batch = 3;
  others[1].heads_q = 4;
  others[2].dim = 64;
  others[3].dtype = DType::kFloat16;
  others[4].lse = false;
  others[5].sinks = true;
  others[6].options.scale = 0.5;
  others[7].options.causal = true;
  for (std::size_t i = 0; i < others.size(); ++i) {
    EXPECT_NE(spec_of(ragged_problem(others[i])), spec) << i;
  }
  PrefillRaggedArgs strided = ragged_args(base);
  strided.k.strides[0] *= 2;
  EXPECT_NE(spec_of(problem_of(describe(strided, base.options))), spec);
  strided = ragged_args(base);
  strided.lse.strides[0] *= 2;
  EXPECT_NE(spec_of(problem_of(describe(strided, base.options))), spec);
}

TEST(CudnnForm, LengthsWithinTheMaximaShareAGraph) {
  CallShape shape;
  shape.options.max_qo_len = 48;
  shape.options.max_kv_len = 200;
  const GraphSpec spec = spec_of(ragged_problem(shape));
  shape.rows = 60;  // more rows in all, the same maximum
  EXPECT_EQ(spec_of(ragged_problem(shape)), spec);
  shape.options.lse_base = LseBase::kNatural;  // ours, not cuDNN's
  EXPECT_EQ(spec_of(ragged_problem(shape)), spec);
}

TEST(CudnnForm, StridedSinksAreCopied) {
  PrefillRaggedArgs args = dense_args({.sinks = true});
  EXPECT_FALSE(make_form(problem_of(describe(args)), h200()).copies_sinks);
  args.sinks.strides[0] = 2;
  const GraphForm form = make_form(problem_of(describe(args)), h200());
  EXPECT_TRUE(form.copies_sinks);
  EXPECT_TRUE(form.prepares());
}

}  // namespace
}  // namespace tilegate::cudnn
