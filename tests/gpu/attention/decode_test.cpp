// SPDX-License-Identifier: Apache-2.0
// cuda.decode against the fp64 reference backend: layouts, tables, lengths, options, bits, graphs.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/gpu/attention/decode_case.h"

namespace tilegate::test {
namespace {

class Decode : public testing::Test {
 protected:
  void SetUp() override { TILEGATE_REQUIRE_GPU(80); }
};

TEST_F(Decode, PageTablesLayoutsAndIndexTypes) {
  for (const bool dense : {false, true}) {
    for (const DType index : {DType::kInt32, DType::kInt64}) {
      for (const KvLayout layout : {KvLayout::kNhd, KvLayout::kHnd}) {
        DecodeShape shape{
            .kv_lens = {1, 63, 64, 65, 0, 200, 1023}, .index = index, .dense_table = dense};
        shape.options.kv_layout = layout;
        SCOPED_TRACE(testing::Message()
                     << dense << static_cast<int>(index) << static_cast<int>(layout));
        expect_reference(shape);
      }
    }
  }
}

TEST_F(Decode, PageSizes) {
  for (const int page_size : {1, 2, 3, 5, 16, 48, 64, 100, 256}) {
    SCOPED_TRACE(page_size);
    expect_reference({.kv_lens = {5, 129, 700}, .page_size = page_size});
  }
}

TEST_F(Decode, HeadDimsAndDtypes) {
  for (const int dim : {64, 128, 256}) {
    for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
      for (const int q_len : {1, 5}) {
        SCOPED_TRACE(testing::Message() << dim << " " << to_string(dtype) << " " << q_len);
        expect_reference({.kv_lens = {3, 150, 1111}, .dim = dim, .q_len = q_len, .dtype = dtype});
      }
    }
  }
}

TEST_F(Decode, GroupsAndRows) {
  for (const int group : {1, 3, 7, 8, 16, 20}) {
    for (const int q_len : {1, 2, 4, 16}) {
      SCOPED_TRACE(testing::Message() << group << " x " << q_len);
      expect_reference({.kv_lens = {2, 31, 500}, .heads_q = 2 * group, .q_len = q_len});
    }
  }
}

TEST_F(Decode, WindowsSinksAndCaps) {
  for (const std::int64_t window : {-1, 0, 1, 63, 64, 200}) {
    for (const int q_len : {1, 4}) {
      for (const double cap : {0.0, 5.0}) {
        DecodeShape shape{.kv_lens = {0, 2, 65, 130, 900}, .q_len = q_len, .sinks = true};
        shape.options.window_left = window;
        shape.options.logits_soft_cap = cap;
        shape.options.lse_base = LseBase::kNatural;
        SCOPED_TRACE(testing::Message() << window << " " << q_len << " " << cap);
        expect_reference(shape);
      }
    }
  }
}

TEST_F(Decode, ScalesOfEverySign) {
  for (const double scale : {0.0, 0.3, -0.1}) {
    DecodeShape shape{.kv_lens = {70, 300}};
    shape.options.scale = scale;
    SCOPED_TRACE(scale);
    expect_reference(shape);
  }
}

TEST_F(Decode, HugeLogitsStayExact) {
  DecodeShape shape{.kv_lens = {80, 2000}, .size = 8.0f};
  shape.options.scale = 1.0;
  expect_reference(shape);
}

TEST_F(Decode, ManySmallRequests) {
  DecodeShape shape;
  shape.kv_lens.clear();
  for (int i = 0; i < 1300; ++i) shape.kv_lens.push_back(i % 41 == 0 ? 300 : i % 7);
  expect_reference(shape);
}

TEST_F(Decode, OneLongRequestIsSplit) {
  expect_reference({.kv_lens = {20000}});
  expect_reference({.kv_lens = {9000, 1, 0, 12000}, .q_len = 3});
}

TEST_F(Decode, PinnedSplits) {
  for (const std::int64_t split : {64, 100, 512}) {
    for (const bool dense : {false, true}) {
      DecodeShape shape{
          .kv_lens = {0, 3, 64, 513, 1500}, .q_len = 2, .dense_table = dense, .sinks = true};
      shape.options.fixed_split_size = split;
      SCOPED_TRACE(testing::Message() << split << dense);
      expect_reference(shape);
    }
  }
  DecodeShape whole{.kv_lens = {0, 3, 64, 513, 1500}};
  whole.options.disable_split_kv = true;
  expect_reference(whole);
}

TEST_F(Decode, SameCallSameBits) {
  Context cuda = Context::create({.device = gpu()}).value();
  DecodeCase c({.kv_lens = {5000, 17, 0, 9000, 1}}, 5);
  const DecodePagedArgs args = c.device();
  const Plan decode = plan_on(cuda, args, c.options);
  run_on_gpu(cuda, decode, args);
  const auto first = c.o().read();
  for (int i = 0; i < 20; ++i) {
    run_on_gpu(cuda, decode, args);
    ASSERT_EQ(c.o().read(), first);
  }
}

// A request alone and in a batch, with other capacity: the same bits when pinned.
TEST_F(Decode, BatchInvariantBits) {
  Context cuda = Context::create({.device = gpu()}).value();
  DecodeShape alone{.kv_lens = {3000}};
  alone.options.batch_invariant = true;
  DecodeShape batched = alone;
  batched.kv_lens = {3000, 100, 7000, 0, 64};
  batched.reserve_keys = 50000;
  // Equal seeds draw q, o and lse of different sizes first: give both the same request 0.
  DecodeCase a(alone, 3);
  DecodeCase b(batched, 3);
  b.copy_request_0(a);
  const DecodePagedArgs args_a = a.device();
  const DecodePagedArgs args_b = b.device();
  run_on_gpu(cuda, plan_on(cuda, args_a, a.options), args_a);
  run_on_gpu(cuda, plan_on(cuda, args_b, b.options), args_b);
  const auto o_a = a.o().read();
  auto o_b = b.o().read();
  o_b.resize(o_a.size());
  EXPECT_EQ(o_a, o_b);
}

// A graph captured while the request is 2 keys long replays at every length the plan allows.
TEST_F(Decode, GraphReplaysAtNewLengths) {
  constexpr int kLongest = 131072;
  DecodeShape shape{.kv_lens = {kLongest, 40}, .heads_q = 4, .heads_kv = 1, .dim = 64};
  DecodeCase c(shape, 9);
  c.set_length(0, 2);
  expect_replays(c, {2, 8192, kLongest, 0, 65}, [&](int keys) { c.set_length(0, keys); });
}

// The pages are read at replay: here requests trade them.
TEST_F(Decode, GraphReplaysWithOtherPages) {
  for (const bool dense : {false, true}) {
    DecodeCase c({.kv_lens = {70, 70, 70}, .q_len = 2, .dense_table = dense}, 10);
    expect_replays(c, {1, 2, 0}, [&](int by) { c.rotate_pages(by); });
  }
}

// Rows of later tokens may hold NaN values: earlier rows never multiply them.
TEST_F(Decode, LaterTokensDoNotReachEarlierRows) {
  DecodeShape shape{.kv_lens = {130}, .q_len = 4};
  DecodeCase c(shape, 21);
  c.poison_key(0, 129);
  expect_reference(c);
}

// Keys that a window or a later position hides from every row may hold anything.
TEST_F(Decode, HiddenKeysMayHoldNanAndInfinity) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    for (const int q_len : {1, 4}) {
      DecodeShape shape{.kv_lens = {300, 40}, .q_len = q_len};
      shape.options.window_left = 20;
      DecodeCase c(shape, 22);
      for (const int key : {0, 100, 255, 256, 270, 275}) c.spoil_key(0, key, bad);
      SCOPED_TRACE(testing::Message() << bad << " " << q_len);
      expect_reference(c);
    }
  }
}

// The same requests in another order: the same answers, and the same bits where they are pinned.
TEST_F(Decode, RequestsInAnotherOrder) {
  Context cuda = Context::create({.device = gpu()}).value();
  for (const bool invariant : {false, true}) {
    DecodeShape shape{.kv_lens = {900, 900, 900}, .q_len = 2};
    shape.options.batch_invariant = invariant;
    DecodeCase c(shape, 12);
    const DecodePagedArgs args = c.device();
    const Plan decode = plan_on(cuda, args, c.options);
    run_on_gpu(cuda, decode, args);
    const auto first = c.o().read();
    c.rotate_pages(1);
    c.rotate_queries(1);
    run_on_gpu(cuda, decode, c.device());
    auto moved = c.o().read();
    const std::size_t request = moved.size() / 3;
    std::rotate(moved.begin(), moved.begin() + static_cast<long>(request), moved.end());
    std::rotate(moved.begin(), moved.begin() + static_cast<long>(request), moved.end());
    EXPECT_TRUE(!invariant || moved == first);
    Tensor wanted(shape.dtype, {3 * shape.q_len, shape.heads_q, shape.dim});
    for (std::int64_t i = 0; i < wanted.shape().numel(); ++i) {
      wanted.set(i, load_float(first.data(), shape.dtype, i));
    }
    EXPECT_LE(distance(wanted.host(), moved), kTolerance);
  }
}

// Pages 1, 65536 and 131073 of a pool past 2^31 elements; all others hold NaN.
TEST_F(Decode, PagesFarApart) {
  constexpr std::int64_t kFar[] = {1, 65536, 131073};
  Context cuda = Context::create({.device = gpu()}).value();
  DecodeShape shape{.kv_lens = {40}, .heads_q = 16, .heads_kv = 8, .spare_pages = 0};
  DecodeCase c(shape, 13);
  const DecodePagedArgs near = c.device();
  run_on_gpu(cuda, plan_on(cuda, near, c.options), near);
  const auto wanted = c.o().read();
  const std::int64_t page_bytes = near.k_cache.strides[0] * size_of(shape.dtype);
  const auto bytes = static_cast<std::size_t>((kFar[2] + 1) * page_bytes);
  DeviceBuffer k = DeviceBuffer::allocate(gpu(), bytes).value();
  DeviceBuffer v = DeviceBuffer::allocate(gpu(), bytes).value();
  k.fill(0xff).throw_if_error();
  v.fill(0xff).throw_if_error();
  DecodePagedArgs far = near;
  for (const auto& [pool, small] : {std::pair{&k, near.k_cache}, {&v, near.v_cache}}) {
    for (int n = 0; n < 3; ++n) {
      ASSERT_EQ(cudaMemcpy(static_cast<char*>(pool->data()) + kFar[n] * page_bytes,
                           static_cast<char*>(small.data) + c.page(n) * page_bytes,
                           static_cast<std::size_t>(page_bytes), cudaMemcpyDeviceToDevice),
                cudaSuccess);
    }
  }
  far.k_cache.data = k.data();
  far.v_cache.data = v.data();
  far.k_cache.shape[0] = far.v_cache.shape[0] = kFar[2] + 1;
  const std::vector<std::int32_t> table(std::begin(kFar), std::end(kFar));
  ASSERT_EQ(cudaMemcpy(near.table.block_tables.data, table.data(), sizeof(std::int32_t) * 3,
                       cudaMemcpyHostToDevice),
            cudaSuccess);
  run_on_gpu(cuda, plan_on(cuda, far, c.options), far);
  EXPECT_EQ(c.o().read(), wanted);
}

TEST_F(Decode, RejectsWhatItDoesNotServe) {
  Context cuda = Context::create({.device = gpu()}).value();
  DecodeCase c({.dim = 72}, 1);
  AttentionOptions options = c.options;
  options.backend = Backend::kCuda;
  const Result<Plan> none = plan(describe(c.device(), options).value(), cuda);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().code(), StatusCode::kUnsupported);
  EXPECT_NE(none.status().message().find("head_dim must be 64, 128 or 256, got 72"),
            std::string::npos);
}

}  // namespace
}  // namespace tilegate::test
