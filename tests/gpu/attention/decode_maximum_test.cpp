// SPDX-License-Identifier: Apache-2.0
// Decode with pinned splits has a workspace for the declared maximum: a request with more splits
// becomes NaN, the others of its batch stay right, and nothing is written past the workspace.
#include <gtest/gtest.h>

#include "tests/gpu/attention/decode_case.h"

namespace tilegate::test {
namespace {

constexpr int kSplit = 128;

class DecodeMaximum : public testing::Test {
 protected:
  void SetUp() override { TILEGATE_REQUIRE_GPU(80); }
};

DecodeShape pinned_shape(int q_len, bool dense) {
  DecodeShape shape{
      .kv_lens = {900, 40, 0, 100, 700, 128}, .q_len = q_len, .dense_table = dense, .sinks = true};
  shape.options.fixed_split_size = kSplit;
  return shape;
}

// The plan is made for `max_keys` a request, whatever lengths are in the tensors.
Plan plan_for(Context& context, DecodeCase& c, int max_keys) {
  AttentionOptions options = c.options;
  options.max_kv_len = max_keys;
  return plan_on(context, c.device(), options);
}

// What the device holds: the reference, but NaN for requests of more than `most` keys.
void expect_nan_above(DecodeCase& c, const DecodeShape& shape, int most) {
  const auto o = c.o().read();
  const auto lse = c.lse().read();
  Context cpu = Context::create({}).value();
  const DecodePagedArgs host = c.host();
  plan_on(cpu, host, c.options).run(cpu, host, {}).throw_if_error();
  for (std::size_t b = 0; b < shape.kv_lens.size(); ++b) {
    if (shape.kv_lens[b] <= most) continue;
    const std::int64_t heads = shape.q_len * shape.heads_q;
    const std::int64_t first = static_cast<std::int64_t>(b) * heads;
    for (std::int64_t i = first; i < first + heads; ++i) {
      c.lse().set(i, std::numeric_limits<float>::quiet_NaN());
      for (std::int64_t d = 0; d < shape.dim; ++d) {
        c.o().set(i * shape.dim + d, std::numeric_limits<float>::quiet_NaN());
      }
    }
  }
  EXPECT_LE(distance(c.o().host(), o), kTolerance);
  EXPECT_LE(distance(c.lse().host(), lse), kLseTolerance);
}

// One split (no workspace), and three.
TEST_F(DecodeMaximum, RequestsAboveItAreNan) {
  Context cuda = Context::create({.device = gpu()}).value();
  for (const int max_keys : {100, 300}) {
    for (const int q_len : {1, 3, 8, 16}) {
      for (const bool dense : {false, true}) {
        SCOPED_TRACE(testing::Message() << max_keys << " " << q_len << " " << dense);
        const DecodeShape shape = pinned_shape(q_len, dense);
        DecodeCase c(shape, 41);
        const Plan decode = plan_for(cuda, c, max_keys);
        EXPECT_EQ(decode.workspace_bytes() == 0, max_keys <= kSplit);
        run_on_gpu(cuda, decode, c.device());
        expect_nan_above(c, shape, (max_keys + kSplit - 1) / kSplit * kSplit);
      }
    }
  }
}

TEST_F(DecodeMaximum, BatchInvariantRequestsAboveItAreNan) {
  Context cuda = Context::create({.device = gpu()}).value();
  DecodeShape shape{.kv_lens = {5000, 512, 3, 513}};
  shape.options.batch_invariant = true;
  DecodeCase c(shape, 42);
  run_on_gpu(cuda, plan_for(cuda, c, 512), c.device());
  expect_nan_above(c, shape, 512);
}

// A window that leaves no more splits than planned needs no more room.
TEST_F(DecodeMaximum, WindowsCountWhatTheySee) {
  Context cuda = Context::create({.device = gpu()}).value();
  DecodeShape shape = pinned_shape(1, true);
  shape.options.window_left = 2;  // 900 and 700 are no multiples of a split
  DecodeCase c(shape, 43);
  run_on_gpu(cuda, plan_for(cuda, c, 100), c.device());
  expect_nan_above(c, shape, 900);
}

// The even cut and units of clusters have no such limit.
TEST_F(DecodeMaximum, OtherCutsServeWhatIsLonger) {
  Context cuda = Context::create({.device = gpu()}).value();
  DecodeShape shape{.kv_lens = {9000, 40, 0, 700}};
  DecodeCase c(shape, 44);
  run_on_gpu(cuda, plan_for(cuda, c, 100), c.device());
  expect_nan_above(c, shape, 9000);
}

// A graph of a short request says that the request has grown too long, and is right again after.
TEST_F(DecodeMaximum, ReplaysOfLongerRequestsAreNan) {
  Context cuda = Context::create({.device = gpu()}).value();
  for (const int max_keys : {100, 300}) {
    DecodeShape shape = pinned_shape(1, true);
    DecodeCase c(shape, 45);
    const Plan decode = plan_for(cuda, c, max_keys);
    const DecodePagedArgs args = c.device();
    DeviceBuffer workspace = DeviceBuffer::allocate(gpu(), decode.workspace_bytes()).value();
    const Stream stream = Stream::create(gpu()).value();
    const auto run = [&] {
      return decode.run(cuda, args, {workspace.data(), workspace.bytes()}, stream.handle());
    };
    const Recording recording = Recording::capture(stream, run).value();
    for (const int keys : {90, 900, 64}) {
      SCOPED_TRACE(testing::Message() << max_keys << " " << keys);
      c.set_length(0, shape.kv_lens[0] = keys);
      (void)c.device();  // the same addresses
      recording.replay(stream).throw_if_error();
      stream.synchronize().throw_if_error();
      expect_nan_above(c, shape, (max_keys + kSplit - 1) / kSplit * kSplit);
    }
  }
}

}  // namespace
}  // namespace tilegate::test
