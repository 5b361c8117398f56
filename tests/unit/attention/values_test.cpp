// SPDX-License-Identifier: Apache-2.0
// Attention calls at the edges of 64 bits, and what the value checks say of page tables and of
// tokens to append.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "problem/attention_normalise.h"
#include "problem/lengths.h"
#include "tilegate/tilegate.h"

namespace tilegate {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

TEST(AttentionValues, WindowsAsLargeAsTheTypeHideNothing) {
  AttentionProblem p;
  p.window_left = kMost;
  p.window_right = kMost;
  for (const std::int64_t row : {0, 3, 8}) {  // 9 rows, 4 keys: diagonals from -5 to 3
    const IndexRange keys = visible_keys(p, row, 9, 4);
    EXPECT_EQ(keys.begin, 0) << row;
    EXPECT_EQ(keys.end, 4) << row;
  }
  p.window_left = 1;
  EXPECT_EQ(visible_keys(p, 8, 9, 4).begin, 2);
}

TEST(AttentionValues, CapacityDoesNotWrap) {
  EXPECT_EQ(page_capacity(3, 16), 48);
  EXPECT_EQ(page_capacity(0, 16), 0);
  EXPECT_EQ(page_capacity(std::int64_t{1} << 60, 64), kMost);
}

// 2 requests over 4 pages of 2 slots: 3 and 4 keys.
std::string append(std::vector<std::int32_t> requests, std::vector<std::int32_t> positions,
                   std::vector<std::int32_t> pages = {0, 1, 2, 3}) {
  std::vector<std::int32_t> lens = {3, 4};
  const auto tokens = static_cast<std::int64_t>(positions.size());
  AppendPagedKvArgs args;
  args.k = args.v = TensorView::packed(nullptr, DType::kFloat32, {tokens, 1, 8});
  args.k_cache = args.v_cache = TensorView::packed(nullptr, DType::kFloat32, {4, 2, 1, 8});
  args.batch_indices = TensorView::packed(requests.data(), DType::kInt32, {tokens});
  args.positions = TensorView::packed(positions.data(), DType::kInt32, {tokens});
  args.table.block_tables = TensorView::packed(pages.data(), DType::kInt32, {2, 2});
  args.table.kv_lens = TensorView::packed(lens.data(), DType::kInt32, {2});
  const Result<Operation> op = normalise_append(args, {});
  if (!op.ok()) return op.status().message();
  const Status status = check_append_values(std::get<AppendProblem>(*op));
  return status.ok() ? "ok" : status.message();
}

TEST(AttentionValues, AppendedTokensHavePlacesOfTheirOwn) {
  EXPECT_EQ(append({0, 1, 1}, {1, 1, 3}), "ok");
  EXPECT_EQ(append({0, 0}, {-1, -1}), "ok");
  EXPECT_EQ(append({0, 1, 0}, {2, 0, 2}),
            "positions must name a place once, got slot 0 of page 1 for tokens 0 and 2");
  // A page of two requests.
  EXPECT_EQ(append({0, 1}, {1, 1}, {0, 1, 0, 3}),
            "positions must name a place once, got slot 1 of page 0 for tokens 0 and 1");
}

std::string ragged(const AttentionOptions& options) {
  PrefillRaggedArgs args;
  args.q = args.k = args.v = args.o = TensorView::packed(nullptr, DType::kFloat32, {4, 1, 8});
  args.qo_indptr = args.kv_indptr = TensorView::packed(nullptr, DType::kInt32, {2});
  const Result<Operation> op = normalise_attention(args, options);
  return op.ok() ? "ok" : op.status().message();
}

TEST(AttentionValues, FactorsAreThoseOfFloat32) {
  EXPECT_EQ(ragged({.scale = 3e38, .logits_soft_cap = 3e38}), "ok");
  EXPECT_EQ(ragged({.scale = 1e300}), "scale must be finite in float32, got 1e+300");
  EXPECT_EQ(ragged({.scale = {}, .logits_soft_cap = 1e300}),
            "logits_soft_cap must be finite in float32 and at least 0, got 1e+300");
  EXPECT_EQ(ragged({.scale = {}, .logits_soft_cap = 1e-300}),
            "logits_soft_cap must be 0 or a normal float32, got 1e-300");
}

TEST(AttentionValues, DeclaredLengthsHaveABound) {
  EXPECT_EQ(ragged({.scale = {}, .max_qo_len = 2147483647, .max_kv_len = 2147483647}), "ok");
  EXPECT_EQ(ragged({.scale = {}, .max_qo_len = kMost}),
            "max_qo_len must be 0..2147483647, got 9223372036854775807");
  EXPECT_EQ(ragged({.scale = {}, .max_kv_len = kMost}),
            "max_kv_len must be 0..2147483647, got 9223372036854775807");
  EXPECT_EQ(ragged({.scale = {}, .fixed_split_size = -1}),
            "fixed_split_size must be 0..2147483647, got -1");
}

TEST(AttentionValues, MemoryMustBeThereAndSizesNotNegative) {
  Result<Context> context = Context::create();
  ASSERT_TRUE(context.ok());
  std::vector<float> rows(4 * 8);
  std::vector<std::int32_t> offsets = {0, 4};
  PrefillRaggedArgs args;
  args.q = args.k = args.v = TensorView::packed(rows.data(), DType::kFloat32, {4, 1, 8});
  args.qo_indptr = args.kv_indptr = TensorView::packed(offsets.data(), DType::kInt32, {2});
  args.o = TensorView::packed(nullptr, DType::kFloat32, {4, 1, 8});
  EXPECT_EQ(batch_prefill_ragged(*context, args).message(), "o must point to memory, got null");
  // Index values are checked before outputs have memory.
  const Result<Problem> problem = describe(args);
  ASSERT_TRUE(problem.ok());
  EXPECT_TRUE(check_values(*problem, args).ok());
  args.kv_indptr.data = nullptr;
  EXPECT_EQ(check_values(*problem, args).message(), "kv_indptr must point to memory, got null");
  args.kv_indptr = args.qo_indptr;
  args.o.shape[0] = args.q.shape[0] = -4;
  EXPECT_EQ(describe(args).status().message(),
            "q must have sizes of at least 0, got [1, -4, 1, 8]");
}

}  // namespace
}  // namespace tilegate
