// SPDX-License-Identifier: Apache-2.0
// What cuDNN is said to serve: options, shapes, versions, and that each refusal names its argument.
#include "backend/cudnn/graph/support.h"

#include <gtest/gtest.h>

#include "backend/cudnn/graph/cost.h"
#include "tests/unit/cudnn/call.h"

namespace tilegate::cudnn {
namespace {

using namespace tilegate::test;

std::string reason(const AttentionProblem& p, const DeviceFacts& facts = h200()) {
  return unsupported_reason(p, facts).value_or("");
}

void expect_refused(const AttentionProblem& p, const std::string& argument,
                    const DeviceFacts& facts = h200()) {
  EXPECT_NE(reason(p, facts).find(argument), std::string::npos)
      << argument << " in \"" << reason(p, facts) << "\"";
}

TEST(CudnnSupport, ServesEveryForm) {
  EXPECT_EQ(reason(dense_problem({})), "");
  EXPECT_EQ(reason(ragged_problem({.dim = 192, .dim_v = 128})), "");
  EXPECT_EQ(reason(paged_problem({.dtype = DType::kFloat16})), "");
  for (const std::int64_t rows : {1, 2, 16}) {
    EXPECT_EQ(reason(decode_problem({.rows = rows, .sinks = true})), "");
  }
}

TEST(CudnnSupport, RefusesOptionsByName) {
  CallShape shape;
  shape.options.logits_soft_cap = 30.0;
  expect_refused(dense_problem(shape), "logits_soft_cap");
  shape.options = {};
  shape.options.batch_invariant = true;
  expect_refused(dense_problem(shape), "batch_invariant");
  shape.options = {};
  shape.options.fixed_split_size = 64;
  expect_refused(dense_problem(shape), "fixed_split_size");
  shape.options = {};
  shape.options.disable_split_kv = true;
  expect_refused(dense_problem(shape), "disable_split_kv");
  PrefillRaggedArgs masked = ragged_args({});
  masked.custom_mask = absent_data(DType::kUInt8, {2 * 64 * 256});
  expect_refused(problem_of(describe(masked)), "custom masks");
}

TEST(CudnnSupport, RefusesShapesByName) {
  expect_refused(dense_problem({.dtype = DType::kFloat32}), "float32");
  expect_refused(dense_problem({.dim = 100}), "head_dim");
  expect_refused(dense_problem({.dim = 264}), "head_dim");
  expect_refused(decode_problem({.rows = 1, .keys = 240, .page_size = 24}), "page_size");
  PrefillRaggedArgs strided = ragged_args({});
  strided.k.strides[0] += 4;
  expect_refused(problem_of(describe(strided)), "strides of k");
  for (const std::int64_t stride : {-256, 0}) {
    PrefillRaggedArgs backwards = dense_args({});
    backwards.q.strides[2] = stride;
    EXPECT_EQ(reason(problem_of(describe(backwards))).empty(), stride == 0) << stride;
  }
}

TEST(CudnnSupport, FollowsVersionsAndArchitectures) {
  CallShape window{.keys = 4096};
  window.options.window_left = 100;
  expect_refused(dense_problem(window), "window_left", h200(91400));
  EXPECT_EQ(reason(dense_problem(window), h200(91500)), "");
  window.options.causal = true;
  EXPECT_EQ(reason(dense_problem(window), h200(91400)), "");
  expect_refused(dense_problem({}), "9.14.0", h200(91300));
  DeviceFacts blackwell = h200(92700);
  blackwell.compute_capability = 100;
  expect_refused(decode_problem({.rows = 1}), "one query row", blackwell);
  EXPECT_EQ(reason(decode_problem({.rows = 4}), blackwell), "");
  DeviceFacts ampere = h200(91500);
  ampere.compute_capability = 80;
  expect_refused(ragged_problem({}), "unequal length", ampere);
  EXPECT_EQ(reason(dense_problem({}), ampere), "");
}

TEST(CudnnSupport, SaysWhyThereIsNone) {
  DeviceFacts facts = h200(0);
  facts.cudnn_missing = "libcudnn.so.9: cannot open shared object file";
  expect_refused(dense_problem({}), "cannot open shared object file", facts);
}

TEST(CudnnSupport, VersionsReadAsPeopleWriteThem) {
  EXPECT_EQ(version_text(91900), "9.19.0");
  EXPECT_EQ(version_text(91002), "9.10.2");
}

// The estimates that the automatic choice stands on grow with the work.
TEST(CudnnSupport, CostsGrowWithKeys) {
  for (const std::int64_t rows : {1, 4, 512}) {
    double before = 0.0;
    for (const std::int64_t keys : {1024, 4096, 32768}) {
      const double now = cost_us(dense_problem({.rows = rows, .keys = keys}), h200());
      EXPECT_GT(now, before) << rows << " " << keys;
      before = now;
    }
  }
}

}  // namespace
}  // namespace tilegate::cudnn
