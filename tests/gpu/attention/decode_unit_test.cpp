// SPDX-License-Identifier: Apache-2.0
// cuda.decode where units may have clusters of their own, and where the split merges itself: values
// against the fp64 reference, one graph over balanced and skewed lengths, any workspace contents.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/gpu/attention/decode_case.h"

namespace tilegate::test {
namespace {

class DecodeUnits : public testing::Test {
 protected:
  void SetUp() override { TILEGATE_REQUIRE_GPU(90); }

  static std::string explained(const DecodeShape& shape) {
    Context cuda = Context::create({.device = gpu()}).value();
    DecodeCase c(shape, 1);
    return plan_on(cuda, c.device(), c.options).explain();
  }

  static bool has(const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  }
};

// Lengths that are about equal, and lengths of which one is far above the others.
const std::vector<std::vector<int>> kLengths = {
    {1}, {500}, {300, 310, 290, 305}, {2000, 1, 0, 64}, {16, 17, 15, 33}};

TEST_F(DecodeUnits, ExplainNamesTheForm) {
  EXPECT_TRUE(has(explained({.kv_lens = {1000}}), "cluster of 8 a unit"));
  EXPECT_TRUE(has(explained({.kv_lens = {40}}), "cluster of 8 a unit"));
  EXPECT_TRUE(has(explained({.kv_lens = std::vector<int>(40, 20)}), "one block a unit, or keys"));
  EXPECT_FALSE(has(explained({.kv_lens = {1000}, .page_size = 1}), " a unit"));
  EXPECT_FALSE(has(explained({.kv_lens = {1000}, .q_len = 3}), " a unit"));
  EXPECT_FALSE(has(explained({.kv_lens = {1000}, .dim = 256}), " a unit"));
  DecodeShape pinned{.kv_lens = {1000}};
  pinned.options.batch_invariant = true;
  EXPECT_FALSE(has(explained(pinned), " a unit"));
  EXPECT_TRUE(has(explained({.kv_lens = std::vector<int>(800, 2)}), "one split a request"));
  const std::vector<int> two_tiles(400, 100);
  EXPECT_TRUE(has(explained({.kv_lens = two_tiles}), "keys cut evenly, one kernel"));
}

TEST_F(DecodeUnits, GroupsAndRows) {
  for (const int group : {1, 3, 4, 8}) {
    for (int q_len = 1; q_len * group <= 8; ++q_len) {
      for (const std::vector<int>& lens : kLengths) {
        SCOPED_TRACE(testing::Message() << group << " x " << q_len << ", " << lens[0]);
        expect_reference({.kv_lens = lens, .heads_q = 2 * group, .q_len = q_len});
      }
    }
  }
}

TEST_F(DecodeUnits, WindowsSinksAndCaps) {
  for (const std::int64_t window : {-1, 0, 1, 15, 16, 64, 200}) {
    for (const int q_len : {1, 4}) {
      for (const double cap : {0.0, 5.0}) {
        for (const std::vector<int>& lens : kLengths) {
          DecodeShape shape{.kv_lens = lens, .heads_q = 4, .q_len = q_len, .sinks = true};
          shape.options.window_left = window;
          shape.options.logits_soft_cap = cap;
          shape.options.lse_base = LseBase::kNatural;
          SCOPED_TRACE(testing::Message()
                       << window << " " << q_len << " " << cap << " " << lens[0]);
          expect_reference(shape);
        }
      }
    }
  }
}

TEST_F(DecodeUnits, TablesLayoutsAndPages) {
  for (const int page_size : {1, 16, 48, 64}) {
    for (const bool dense : {false, true}) {
      for (const KvLayout layout : {KvLayout::kNhd, KvLayout::kHnd}) {
        for (const DType index : {DType::kInt32, DType::kInt64}) {
          DecodeShape shape{.kv_lens = {700, 650, 0, 690}, .page_size = page_size};
          shape.index = index;
          shape.dense_table = dense;
          shape.options.kv_layout = layout;
          SCOPED_TRACE(testing::Message() << page_size << dense << static_cast<int>(layout)
                                          << static_cast<int>(index));
          expect_reference(shape);
          shape.kv_lens = {777};
          expect_reference(shape);
        }
      }
    }
  }
}

TEST_F(DecodeUnits, DimsDtypesAndEmptyRequests) {
  for (const int dim : {64, 128}) {
    for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
      for (const std::vector<int>& lens :
           {std::vector<int>{0}, {0, 0, 0}, {0, 5, 0}, {4000}, {900, 1000}}) {
        SCOPED_TRACE(testing::Message() << dim << to_string(dtype) << lens.size() << lens[0]);
        expect_reference({.kv_lens = lens, .dim = dim, .q_len = 2, .dtype = dtype});
      }
    }
  }
}

// 2 to 132 units: clusters of 8 blocks down to single ones, and the split in the same kernel.
TEST_F(DecodeUnits, EveryClusterSize) {
  for (const int batch : {2, 7, 8, 15, 16, 33, 34, 60, 66}) {
    for (const bool skewed : {false, true}) {
      std::vector<int> lens;
      for (int i = 0; i < batch; ++i) lens.push_back(skewed ? i % 5 : 150 + i % 20);
      lens[static_cast<std::size_t>(batch / 2)] = skewed ? 6000 : 160;
      SCOPED_TRACE(testing::Message() << batch << skewed);
      expect_reference({.kv_lens = lens, .sinks = true});
    }
  }
}

// The split that merges itself, where units have no clusters.
TEST_F(DecodeUnits, TagsOfManyUnits) {
  std::vector<int> lens;
  for (int i = 0; i < 100; ++i)
    lens.push_back(i % 9 == 4 ? 1500 : i % 7 == 0 ? 0 : 64 * (i % 5) + 1);
  lens[50] = 8000;
  for (const int dim : {64, 128, 256}) {
    for (const int q_len : {1, 4}) {
      SCOPED_TRACE(testing::Message() << dim << " " << q_len);
      expect_reference({.kv_lens = lens, .dim = dim, .q_len = q_len, .sinks = q_len == 1});
    }
  }
  expect_reference({.kv_lens = lens, .q_len = 8});  // two m-tiles
}

TEST_F(DecodeUnits, LaterTokensDoNotReachEarlierRows) {
  for (const std::vector<int>& lens : {std::vector<int>{130}, {3000, 10, 10, 10}}) {
    DecodeCase c({.kv_lens = lens, .heads_q = 4, .q_len = 4}, 21);
    c.poison_key(0, lens[0] - 1);
    expect_reference(c);
  }
}

TEST_F(DecodeUnits, GraphReplaysFromTwoKeysToTheLast) {
  constexpr int kLongest = 8192;
  const DecodeShape shape{.kv_lens = {kLongest}, .heads_q = 4, .heads_kv = 1};
  EXPECT_TRUE(has(explained(shape), "cluster of 8 a unit"));
  DecodeCase c(shape, 9);
  c.set_length(0, 2);
  expect_replays(c, {2, 1, 0, 17, 4000, kLongest}, [&](int keys) { c.set_length(0, keys); });
}

TEST_F(DecodeUnits, OneGraphServesBalancedAndSkewedLengths) {
  constexpr int kLongest = 3000;
  constexpr int kLengthsOf[][4] = {{2, 2, 2, 2},
                                   {kLongest, 2, 3, 1},
                                   {0, 0, 0, 0},
                                   {kLongest, kLongest, kLongest, kLongest},
                                   {1, 1, kLongest, kLongest},
                                   {0, 0, 0, kLongest},
                                   {700, 710, 720, 730}};
  const DecodeShape shape{.kv_lens = std::vector<int>(4, kLongest), .heads_q = 4, .heads_kv = 1};
  EXPECT_TRUE(has(explained(shape), "cluster of 8 a unit, or keys cut evenly"));
  DecodeCase c(shape, 9);
  expect_replays(c, {0, 1, 2, 3, 4, 5, 6, 1}, [&](int i) {
    for (int b = 0; b < 4; ++b) c.set_length(b, kLengthsOf[i][b]);
  });
}

// Workspaces need not be cleared: neither bytes of any kind nor what other plans left behind
// matter.
TEST_F(DecodeUnits, AnyWorkspaceSameBits) {
  Context cuda = Context::create({.device = gpu()}).value();
  std::vector<int> many(90, 100);
  many[40] = 9000;
  const DecodeShape shapes[] = {{.kv_lens = {5000, 17, 0, 900}},
                                {.kv_lens = many},
                                {.kv_lens = {30000}, .page_size = 1},
                                {.kv_lens = {3000, 2, 4000}, .q_len = 8}};
  std::vector<DecodeCase> cases;
  for (const DecodeShape& shape : shapes) cases.emplace_back(shape, 5);
  cases[3].options.fixed_split_size = 128;
  std::vector<Plan> plans;
  std::vector<DecodePagedArgs> args;
  std::vector<std::vector<unsigned char>> first;
  std::size_t bytes = 0;
  for (DecodeCase& c : cases) {
    args.push_back(c.device());
    plans.push_back(plan_on(cuda, args.back(), c.options));
    bytes = std::max(bytes, plans.back().workspace_bytes());
    run_on_gpu(cuda, plans.back(), args.back(), 0);
    first.push_back(c.o().read());
    for (const unsigned char garbage : {0xaa, 0x7f, 0xff}) {
      run_on_gpu(cuda, plans.back(), args.back(), garbage);
      EXPECT_EQ(c.o().read(), first.back());
    }
  }
  DeviceBuffer workspace = DeviceBuffer::allocate(gpu(), bytes).value();
  workspace.fill(0xaa).throw_if_error();
  for (int round = 0; round < 30; ++round) {
    for (std::size_t i = 0; i < plans.size(); ++i) {
      plans[i].run(cuda, args[i], {workspace.data(), workspace.bytes()}).throw_if_error();
    }
    synchronize(gpu()).throw_if_error();
    for (std::size_t i = 0; i < plans.size(); ++i) ASSERT_EQ(cases[i].o().read(), first[i]);
  }
}

}  // namespace
}  // namespace tilegate::test
