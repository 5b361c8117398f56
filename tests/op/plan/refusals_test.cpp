// SPDX-License-Identifier: Apache-2.0
// Laws of refusals: they come before any launch, name the argument with what it must be and what it
// was, list every backend that was considered, and an explicit backend never falls back. That a
// refused call changes no byte is checked by the fixture around each of them.
#include <limits>

#include "tests/op/calls/catalog.h"
#include "tests/op/calls/small_calls.h"
#include "tests/op/oracle/attention_law.h"

namespace laws {
namespace {

using tilegate::DType;
using tilegate::StatusCode;

class AttentionRefusals : public AttentionLaw {};

TEST_P(AttentionRefusals, Options) {
  struct Bad {
    void (*set)(tilegate::AttentionOptions&);
    std::vector<std::string> words;
  };
  const Bad bad[] = {
      {[](auto& o) { o.window_left = -2; }, {"window_left", "-1", "-2"}},
      {[](auto& o) { o.window_right = -9; }, {"window_right", "-1", "-9"}},
      {[](auto& o) { o.logits_soft_cap = -1.5; }, {"logits_soft_cap", "0", "-1.5"}},
      {[](auto& o) { o.scale = std::numeric_limits<double>::quiet_NaN(); },
       {"scale", "finite", "nan"}},
      {[](auto& o) { o.max_kv_len = -3; }, {"max_kv_len", "0", "-3"}},
      {[](auto& o) { o.max_qo_len = -3; }, {"max_qo_len", "0", "-3"}},
      {[](auto& o) { o.fixed_split_size = -4; }, {"fixed_split_size", "0", "-4"}},
      {[](auto& o) { o.q_len_per_req = 2; }, {"q_len_per_req", "1", "2"}},
      {[](auto& o) {
         o.fixed_split_size = 64;
         o.disable_split_kv = true;
       },
       {"fixed_split_size", "disable_split_kv", "64"}},
  };
  for (const Bad& entry : bad) {
    AttentionCall call = make_ragged({});
    entry.set(call.options);
    expect_invalid(call, entry.words);
  }
  for (const std::int64_t rows : {0, 17}) {
    AttentionCall call = as_decode(make_ragged({.qo_lens = {1, 1}, .kv_lens = {4, 9}}));
    call.options.q_len_per_req = rows;
    expect_invalid(call, {"q_len_per_req", "1..16", std::to_string(rows)});
  }
}

TEST_P(AttentionRefusals, Shapes) {
  const AttentionCall good = make_ragged({.dtype = DType::kFloat32});
  AttentionCall call = good;
  call.q = {};
  expect_invalid(call, {"q must"});
  call = good;
  call.k = Tensor::packed(DType::kFloat32, {25, 3, 64});
  call.v = Tensor::packed(DType::kFloat32, {25, 3, 64});
  expect_invalid(call, {"k must", "4", "3"});
  call = good;
  call.k = Tensor::packed(DType::kFloat32, {25, 2, 32});
  expect_invalid(call, {"k must", "64", "32"});
  call = good;
  call.v = Tensor::packed(DType::kFloat16, {25, 2, 64});
  expect_invalid(call, {"v must", "float32", "float16"});
  call = good;
  call.o = Tensor::packed(DType::kFloat32, {25, 4, 32});
  expect_invalid(call, {"o must", "64", "32"});
  call = good;
  call.lse = Tensor::packed(DType::kFloat16, good.lse.shape());
  expect_invalid(call, {"lse must", "float32", "float16"});
  call = good;
  call.qo_indptr = Tensor::packed(DType::kFloat32, {3});
  expect_invalid(call, {"qo_indptr must", "int32", "float32"});
  call = good;
  call.kv_indptr = Tensor::indices({0, 22});
  expect_invalid(call, {"kv_indptr must", "3", "2"});
  call = good;
  call.sinks = Tensor::packed(DType::kFloat32, {2});
  expect_invalid(call, {"sinks must", "4", "2"});
  call = good;
  call.q = Tensor::packed(DType::kInt32, good.q.shape());
  expect_invalid(call, {"q must", "float32", "int32"});
}

TEST_P(AttentionRefusals, MasksAndPageTables) {
  AttentionCall both = make_ragged({});
  Random random(1);
  both.mask_bytes(random_mask(both, random));
  both.packed_custom_mask = Tensor::bytes({1, 2, 3});
  expect_invalid(both, {"packed_custom_mask", "custom_mask"});
  const AttentionCall paged = as_paged(make_ragged({.dtype = DType::kFloat32}));
  AttentionCall call = paged;
  call.kv_last_page_len = {};
  expect_invalid(call, {"kv_last_page_len must"});
  call = paged;
  call.block_tables = Tensor::packed(DType::kInt32, {2, 9}).fill(0);
  call.kv_lens_arg = Tensor::indices({1, 1});
  expect_invalid(call, {"block_tables"});
  call = paged;
  call.kv_indptr = call.kv_indices = call.kv_last_page_len = {};
  expect_invalid(call, {"must"});
  call = paged;
  call.v = {};
  expect_invalid(call, {"v_cache must"});
  call = paged;
  call.kv = Tensor::packed(DType::kFloat32, {9, 2, 4, 2, 64});
  expect_invalid(call, {"kv_cache"});
}

// Index values are checked before any write where the tensors are host memory.
TEST_P(AttentionRefusals, IndexValues) {
  if (!on_cpu_device()) GTEST_SKIP() << "index values are the caller's promise on a GPU";
  const auto ragged = [&](const Dims& qo, const Dims& kv, const std::vector<std::string>& words) {
    AttentionCall call = make_ragged({});
    call.qo_indptr = Tensor::indices(qo);
    call.kv_indptr = Tensor::indices(kv);
    expect_invalid(call, words);
  };
  ragged({1, 5, 22}, {0, 5, 22}, {"qo_indptr", "0", "1"});
  ragged({0, 5, 4}, {0, 5, 22}, {"qo_indptr", "decrease", "4"});
  ragged({0, 5, 26}, {0, 5, 22}, {"qo_indptr", "25", "26"});
  ragged({0, 5, 22}, {0, -1, 22}, {"kv_indptr", "-1"});
  ragged({0, 5, 22}, {0, 5, 1000000}, {"kv_indptr", "25", "1000000"});
  AttentionCall call = as_paged(make_ragged({}));
  call.kv_indices = call.kv_indices.clone();
  call.kv_indices.set(1000, 1);
  expect_invalid(call, {"kv_indices", "1000"});
  call = as_paged(make_ragged({}));
  call.kv_indices.set(-1, 0);
  expect_invalid(call, {"kv_indices", "-1"});
  call = as_paged(make_ragged({}));
  call.kv_last_page_len.set(5, 1);
  expect_invalid(call, {"kv_last_page_len", "4", "5"});
  call = as_paged(make_ragged({}), {.table = Table::kDense});
  call.block_tables.set(99, 1, 2);
  expect_invalid(call, {"block_tables", "99"});
  call = as_paged(make_ragged({}), {.table = Table::kDense});
  call.kv_lens_arg.set(-4, 0);
  expect_invalid(call, {"kv_lens", "-4"});
  call = as_paged(make_ragged({}), {.table = Table::kDense});
  call.kv_lens_arg.set(4000, 0);
  expect_invalid(call, {"4000"});
}

TEST_P(AttentionRefusals, CustomMaskOfTheWrongSize) {
  if (!on_cpu_device()) GTEST_SKIP() << "the size depends on lengths in device memory";
  AttentionCall call = make_ragged({});
  call.mask_bytes(std::vector<std::uint8_t>(5 * 5 + 17 * 17 - 1, 1));
  expect_invalid(call, {"custom_mask", "314", "313"});
  AttentionCall packed = make_ragged({});
  packed.packed_custom_mask = Tensor::bytes(std::vector<std::uint8_t>(40, 1));
  expect_invalid(packed, {"packed_custom_mask", "41", "40"});
}

TEST_P(AttentionRefusals, MergeAndAppend) {
  MergeCall merge = make_merge(Tensor::packed(DType::kFloat32, {2, 3, 4, 8}),
                               Tensor::packed(DType::kFloat32, {2, 3, 4}));
  MergeCall bad = merge;
  bad.s = Tensor::packed(DType::kFloat32, {2, 3, 5});
  expect_invalid(bad, {"s must", "4", "5"});
  bad = merge;
  bad.s = Tensor::packed(DType::kFloat16, {2, 3, 4});
  expect_invalid(bad, {"s must", "float32", "float16"});
  bad = merge;
  bad.o = Tensor::packed(DType::kFloat32, {2, 4, 9});
  expect_invalid(bad, {"o must", "8", "9"});
  AppendCall append;
  const AttentionCall cache = as_paged(make_ragged({.qo_lens = {1, 1}, .kv_lens = {9, 6}}));
  append.k = Tensor::packed(cache.k.dtype(), {2, 2, 64}).fill(1.0);
  append.v = append.k.clone();
  append.k_cache = cache.k;
  append.v_cache = cache.v;
  append.kv_indptr = cache.kv_indptr;
  append.kv_indices = cache.kv_indices;
  append.kv_last_page_len = cache.kv_last_page_len;
  append.positions = Tensor::indices({0, 1});
  expect_invalid(append, {"batch_indices must"});  // two requests
  append.batch_indices = Tensor::indices({0, 1, 0});
  expect_invalid(append, {"batch_indices must", "2", "3"});
  append.batch_indices = Tensor::indices({0, 1});
  if (!on_cpu_device()) return;
  append.batch_indices = Tensor::indices({0, 2});
  expect_invalid(append, {"batch_indices", "2"});
  append.batch_indices = Tensor::indices({0, 1});
  append.positions = Tensor::indices({0, 12});
  expect_invalid(append, {"positions", "12"});
}

TEST_P(AttentionRefusals, AnotherDevice) {
  AttentionCall call = make_ragged({});
  call.set_backend(GetParam().backend);
  auto args = std::get<tilegate::PrefillRaggedArgs>(call.args());
  args.k.device = {tilegate::DeviceType::kCuda, 3};
  const tilegate::Status status = tilegate::describe(args, call.options).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.to_string();
}

LAWS_ON_EVERY_BACKEND(AttentionRefusals);

// Backend choice needs no instance a backend: these tests are about all of them at once.
TEST(BackendChoice, AnExplicitBackendNeverFallsBack) {
  tilegate::Context context = tilegate::Context::create().value();
  for (const tilegate::Backend backend : {tilegate::Backend::kCuda, tilegate::Backend::kCudnn}) {
    for (const CatalogEntry& entry : catalog()) {
      const auto call = entry.make(), untouched = entry.make();
      call->set_backend(backend);
      const auto problem = call->describe();
      ASSERT_TRUE(problem.ok()) << problem.status().to_string();
      const auto plan = tilegate::plan(*problem, context);
      ASSERT_FALSE(plan.ok()) << entry.name << " ran on the CPU although a GPU was asked for";
      EXPECT_EQ(plan.status().code(), StatusCode::kUnsupported);
      EXPECT_FALSE(plan.status().message().empty());
      expect_same_outputs(*untouched, *call, entry.name);
    }
  }
}

TEST(BackendChoice, AutoTakesTheCpuKernelAndExplainsIt) {
  tilegate::Context context = tilegate::Context::create().value();
  for (const CatalogEntry& entry : catalog()) {
    const auto call = entry.make();
    const auto problem = call->describe();
    ASSERT_TRUE(problem.ok()) << problem.status().to_string();
    const auto plan = tilegate::plan(*problem, context);
    ASSERT_TRUE(plan.ok()) << plan.status().to_string();
    EXPECT_EQ(plan->backend(), "cpu") << entry.name;
    const std::string text = plan->explain();
    EXPECT_NE(text.find("chosen: " + plan->kernel()), std::string::npos) << text;
    EXPECT_NE(text.find("runner-up: reference."), std::string::npos) << text;
    EXPECT_NE(text.find("bits: "), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace laws
