// SPDX-License-Identifier: Apache-2.0
// FLOPs and bytes of shapes against loops and sums written out, quantiles, and shares of ceilings.
#include <gtest/gtest.h>

#include <variant>

#include "bench/measure/ceilings.h"
#include "bench/measure/timing.h"
#include "bench/rows/sets.h"
#include "bench/rows/shapes.h"

namespace tilegate::bench {
namespace {

// Counts visible pairs as the mask's definition does.
double pairs(std::int64_t rows, std::int64_t keys) {
  double count = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < keys; ++j) count += j <= i + keys - rows ? 1 : 0;
  }
  return count;
}

TEST(Work, CausalPairsAreAlignedToTheBottomRight) {
  const std::pair<std::int64_t, std::int64_t> lengths[] = {{1, 1}, {7, 7}, {3, 9}, {9, 3}, {1, 5}};
  for (const auto& [rows, keys] : lengths) {
    AttentionShape s;
    s.query_length = rows;
    s.kv_length = keys;
    s.num_heads = 6;
    s.num_kv_heads = 2;
    s.head_size = 64;
    s.batch_size = 3;
    s.causal = true;
    EXPECT_DOUBLE_EQ(work_of(s).flops, 4.0 * 3 * 6 * 64 * pairs(rows, keys)) << rows << " " << keys;
  }
}

TEST(Work, DenseBytesAreTheTensors) {
  AttentionShape s;
  s.batch_size = 4;
  s.query_length = 128;
  s.kv_length = 4096;
  s.num_heads = 12;
  s.num_kv_heads = 4;
  const double q_and_o = 2.0 * 4 * 128 * 12 * 128, k_and_v = 2.0 * 4 * 4096 * 4 * 128;
  EXPECT_DOUBLE_EQ(work_of(s).bytes, 2.0 * (q_and_o + k_and_v));
  EXPECT_DOUBLE_EQ(work_of(s).flops, 4.0 * 4 * 12 * 128 * 4096 * 128);
}

TEST(Work, DecodeStepReadsAndWritesTheState) {
  LinearShape s;
  s.decode = true;
  s.lengths = {1, 1, 1};
  s.heads_qk = 16;
  s.heads_v = 32;
  const double states = 2.0 * 3 * 32 * 128 * 128 * 4;
  const double rows = 3.0 * 128 * 2 * (16 + 16 + 32 + 32);
  const double gates = 3.0 * 32 * 2 * 2;
  EXPECT_DOUBLE_EQ(work_of(s).bytes, states + rows + gates);
  EXPECT_DOUBLE_EQ(work_of(s).flops, 3.0 * 32 * 6 * 128 * 128);
}

TEST(Work, EveryRowOfEverySetHasAName) {
  for (const std::string& set : attention_set_names()) {
    const std::vector<Row> rows = attention_set(set).value();
    EXPECT_FALSE(rows.empty());
    for (const Row& row : rows) {
      EXPECT_TRUE(std::holds_alternative<AttentionShape>(row.shape));
      EXPECT_FALSE(name_of(row.shape).empty());
      EXPECT_GT(work_of(row.shape).bytes, 0.0);
    }
  }
  for (const std::string& set : linear_set_names()) {
    const std::vector<Row> rows = linear_set(set).value();
    EXPECT_FALSE(rows.empty());
    for (const Row& row : rows) {
      EXPECT_TRUE(std::holds_alternative<LinearShape>(row.shape));
      EXPECT_GT(work_of(row.shape).flops, 0.0);
    }
  }
  EXPECT_FALSE(attention_set("nothing").has_value());
  EXPECT_FALSE(linear_set("seed-table").has_value());
}

TEST(Quantiles, MedianAndFifths) {
  const Quantiles odd = quantiles({5, 1, 4, 2, 3});
  EXPECT_DOUBLE_EQ(odd.median, 3.0);
  EXPECT_DOUBLE_EQ(odd.p20, 2.0);
  EXPECT_DOUBLE_EQ(odd.p80, 4.0);
  EXPECT_DOUBLE_EQ(quantiles({2, 1}).median, 1.5);
  EXPECT_DOUBLE_EQ(quantiles({7}).p80, 7.0);
}

TEST(Share, IsTheLargerFloorOverTheTime) {
  const Ceilings ceilings{100.0, 1.0, "", ""};
  const Share memory = share_of(ceilings, {1e6, 1e8}, 2.0);  // 1 ms of bytes, 1 us of FLOPs
  EXPECT_EQ(memory.bound_by, "memory");
  EXPECT_DOUBLE_EQ(memory.of_ceiling, 0.5);
  const Share compute = share_of(ceilings, {1e9, 1e6}, 4.0);  // 10 us of bytes, 1 ms of FLOPs
  EXPECT_EQ(compute.bound_by, "compute");
  EXPECT_DOUBLE_EQ(compute.of_ceiling, 0.25);
  EXPECT_EQ(share_of({}, {1e9, 1e6}, 4.0).bound_by, "");
}

}  // namespace
}  // namespace tilegate::bench
