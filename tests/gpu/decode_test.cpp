// SPDX-License-Identifier: Apache-2.0
// cuda.decode against the fp64 reference backend: layouts, tables, lengths, options, bits, graphs.
#include <gtest/gtest.h>

#include "tests/gpu/paged_case.h"

namespace tilegate::test {
namespace {

constexpr double kTolerance = 1.2e-2;  // bf16 output of magnitude 1, weights rounded to 16 bits
constexpr double kLseTolerance = 2e-3;

Plan plan_on(Context& context, const DecodePagedArgs& args, AttentionOptions options) {
  options.backend =
      context.device().type == DeviceType::kCuda ? Backend::kCuda : Backend::kReference;
  return plan(describe(args, options).value(), context).value();
}

// Runs on the GPU; the outputs are then in c.o() and c.lse() on the device.
void run_on_gpu(Context& context, const Plan& decode, const DecodePagedArgs& args) {
  DeviceBuffer workspace = DeviceBuffer::allocate(gpu(), decode.workspace_bytes()).value();
  workspace.fill(0xff).throw_if_error();
  decode.run(context, args, {workspace.data(), workspace.bytes()}).throw_if_error();
  synchronize(gpu()).throw_if_error();
}

void expect_reference(DecodeCase& c) {
  Context cpu = Context::create({}).value();
  Context cuda = Context::create({.device = gpu()}).value();
  const DecodePagedArgs on_gpu = c.device();
  run_on_gpu(cuda, plan_on(cuda, on_gpu, c.options), on_gpu);
  const auto o = c.o().read();
  const auto lse = c.lse().read();
  const DecodePagedArgs host = c.host();
  plan_on(cpu, host, c.options).run(cpu, host, {}).throw_if_error();
  EXPECT_LE(distance(c.o().host(), o), kTolerance);
  EXPECT_LE(distance(c.lse().host(), lse), kLseTolerance);
}

void expect_reference(const DecodeShape& shape) {
  DecodeCase c(shape, 11);
  expect_reference(c);
}

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
  Context cuda = Context::create({.device = gpu()}).value();
  DecodeShape shape{.kv_lens = {kLongest, 40}, .heads_q = 4, .heads_kv = 1, .dim = 64};
  DecodeCase c(shape, 9);
  const DecodePagedArgs args = c.device();
  const Plan decode = plan_on(cuda, args, c.options);
  DeviceBuffer workspace = DeviceBuffer::allocate(gpu(), decode.workspace_bytes()).value();
  const auto set_length = [&](std::int32_t keys) {
    ASSERT_EQ(cudaMemcpy(args.table.kv_lens.data, &keys, sizeof(keys), cudaMemcpyHostToDevice),
              cudaSuccess);
    c.set_length(0, keys);
  };
  set_length(2);
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  decode.run(cuda, args, {workspace.data(), workspace.bytes()}, stream).throw_if_error();
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  Context cpu = Context::create({}).value();
  for (const int keys : {2, 8192, kLongest, 0, 65}) {
    set_length(keys);
    ASSERT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    const auto o = c.o().read();
    const DecodePagedArgs host = c.host();
    plan_on(cpu, host, c.options).run(cpu, host, {}).throw_if_error();
    SCOPED_TRACE(keys);
    EXPECT_LE(distance(c.o().host(), o), kTolerance);
  }
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

// Rows of later tokens may hold NaN values: earlier rows never multiply them.
TEST_F(Decode, LaterTokensDoNotReachEarlierRows) {
  DecodeShape shape{.kv_lens = {130}, .q_len = 4};
  DecodeCase c(shape, 21);
  c.poison_key(0, 129);
  expect_reference(c);
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
