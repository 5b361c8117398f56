// SPDX-License-Identifier: Apache-2.0
// The cuDNN backend against the fp64 reference: prefill in every form, decode of one and more rows,
// windows, sinks, both bases of lse, empty requests, poison, graphs. Without cuDNN every test
// skips.
#include <gtest/gtest.h>

#include "tests/gpu/attention/prefill_case.h"
#include "tilegate/device_timing.h"

namespace tilegate::test {
namespace {

constexpr double kTolerance = 1.6e-2;  // bf16 output of magnitude 1, weights rounded to 16 bits
constexpr double kLseTolerance = 4e-3;

Result<Problem> describe_call(const CallArgs& args, const AttentionOptions& options) {
  if (const auto* ragged = std::get_if<PrefillRaggedArgs>(&args)) return describe(*ragged, options);
  if (const auto* paged = std::get_if<PrefillPagedArgs>(&args)) return describe(*paged, options);
  return describe(std::get<DecodePagedArgs>(args), options);
}

Plan plan_on(Context& context, const CallArgs& args, AttentionOptions options) {
  options.backend =
      context.device().type == DeviceType::kCuda ? Backend::kCudnn : Backend::kReference;
  return plan(describe_call(args, options).value(), context).value();
}

class Cudnn : public testing::Test {
 protected:
  // One context for the whole program: graphs are built once.
  static Context& cuda() {
    static Context context = Context::create({.device = gpu()}).value();
    return context;
  }
  static Context& cpu() {
    static Context context = Context::create({}).value();
    return context;
  }

  void SetUp() override {
    TILEGATE_REQUIRE_GPU(80);
    for (const BackendInfo& info : backends()) {
      if (info.name == "cudnn" && !info.available) GTEST_SKIP() << "no cuDNN: " << info.detail;
    }
  }

  // Poisons the workspace: nothing in it may be taken for cleared.
  static void run_on_gpu(const Plan& plan, const CallArgs& args) {
    DeviceBuffer workspace = DeviceBuffer::allocate(gpu(), plan.workspace_bytes()).value();
    workspace.fill(0xff).throw_if_error();
    plan.run(cuda(), args, {workspace.data(), workspace.bytes()}).throw_if_error();
    synchronize(gpu()).throw_if_error();
  }

  template <class Case>
  static void expect_case(Case& c) {
    const CallArgs on_gpu = c.device();
    const Plan plan = plan_on(cuda(), on_gpu, c.options);
    run_on_gpu(plan, on_gpu);
    compare(c, plan.explain());
  }

  // What the device holds against a run of the reference; o and lse of the host are overwritten.
  template <class Case>
  static void compare(Case& c, const std::string& how) {
    const auto o = c.o().read();
    const auto lse = c.lse().read();
    const CallArgs host = c.host();
    plan_on(cpu(), host, c.options).run(cpu(), host, {}).throw_if_error();
    EXPECT_LE(distance(c.o().host(), o), kTolerance) << how;
    EXPECT_LE(distance(c.lse().host(), lse), kLseTolerance) << how;
  }

  static void expect_reference(const PrefillShape& shape) {
    PrefillCase c(shape, 5);
    expect_case(c);
  }
  static void expect_reference(const DecodeShape& shape) {
    DecodeCase c(shape, 5);
    expect_case(c);
  }
};

TEST_F(Cudnn, DenseIsDense) {
  PrefillShape shape{.form = PrefillForm::kDense, .qo_lens = {70, 70}, .kv_lens = {200, 200}};
  expect_reference(shape);
  shape.options.causal = true;
  expect_reference(shape);
  shape.kv_lens = {70, 70};
  expect_reference(shape);
}

TEST_F(Cudnn, DenseWithMoreRowsThanKeys) {
  PrefillShape shape{.form = PrefillForm::kDense, .qo_lens = {70, 70}, .kv_lens = {40, 40}};
  shape.options.causal = true;
  expect_reference(shape);
}

TEST_F(Cudnn, RaggedFormsMasksAndEmptyRequests) {
  for (const PrefillForm form : {PrefillForm::kRagged, PrefillForm::kPaged}) {
    for (const bool causal : {false, true}) {
      PrefillShape shape{
          .form = form, .qo_lens = {17, 0, 130, 5, 1, 9}, .kv_lens = {33, 7, 200, 0, 260, 4}};
      shape.options.causal = causal;
      SCOPED_TRACE(testing::Message() << static_cast<int>(form) << causal);
      expect_reference(shape);
    }
  }
}

TEST_F(Cudnn, DeclaredMaximaMakeRaggedDense) {
  PrefillShape shape{.qo_lens = {64, 64}, .kv_lens = {96, 96}, .spare_rows = 0};
  shape.options.max_qo_len = 64;
  shape.options.max_kv_len = 96;
  PrefillCase c(shape, 3);
  const Plan plan = plan_on(cuda(), c.device(), c.options);
  EXPECT_NE(plan.explain().find("equal lengths"), std::string::npos) << plan.explain();
  expect_case(c);
}

TEST_F(Cudnn, EqualRowsWithUnequalKeysAndTheReverse) {
  PrefillShape rows{.qo_lens = {64, 64}, .kv_lens = {96, 40}, .spare_rows = 0};
  rows.options.max_qo_len = 64;
  expect_reference(rows);
  PrefillShape keys{.qo_lens = {64, 20}, .kv_lens = {96, 96}, .spare_rows = 0};
  keys.options.max_kv_len = 96;
  expect_reference(keys);
  PrefillShape one{.qo_lens = {1, 1}, .kv_lens = {96, 40}, .spare_rows = 0};
  one.options.max_qo_len = 1;
  expect_reference(one);
}

// One row and a sink: ragged inside, whatever the batch stride is.
TEST_F(Cudnn, DenseOneRowWithSinksKeepsItsBatchStride) {
  PrefillShape shape{
      .form = PrefillForm::kDense, .qo_lens = {1, 1, 1}, .kv_lens = {70, 70, 70}, .sinks = true};
  shape.batch_gap = 1;
  expect_reference(shape);
}

// A request of NaN spoils its own rows alone.
TEST_F(Cudnn, NeighboursOfNanStayClean) {
  for (const bool causal : {false, true}) {
    PrefillShape shape{.qo_lens = {30, 20, 40}, .kv_lens = {70, 50, 90}, .nan_request = 1};
    shape.options.causal = causal;
    expect_reference(shape);
  }
}

TEST_F(Cudnn, OneRowPerRaggedRequest) {
  PrefillShape shape{.qo_lens = {1, 0, 1}, .kv_lens = {40, 3, 300}};
  shape.options.max_qo_len = 1;
  expect_reference(shape);
}

TEST_F(Cudnn, WindowsInPrefill) {
  for (const PrefillForm form : {PrefillForm::kRagged, PrefillForm::kPaged}) {
    for (const std::int64_t left : {0, 20}) {
      for (const std::int64_t right : {-1, 3}) {
        PrefillShape shape{.form = form, .qo_lens = {17, 130, 3}, .kv_lens = {33, 200, 90}};
        shape.options.window_left = left;
        shape.options.window_right = right;
        shape.options.causal = left > 0 && right < 0;
        SCOPED_TRACE(testing::Message() << static_cast<int>(form) << " " << left << " " << right);
        expect_reference(shape);
      }
    }
  }
}

TEST_F(Cudnn, HeadDimsDtypesAndStrides) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    for (const int dim : {64, 256}) expect_reference(PrefillShape{.dim = dim, .dtype = dtype});
  }
  expect_reference(PrefillShape{.dim = 192, .dim_v = 128});
  expect_reference(PrefillShape{.row_gap = 24, .index = DType::kInt64});
  expect_reference(PrefillShape{
      .form = PrefillForm::kDense, .qo_lens = {33, 33}, .kv_lens = {65, 65}, .row_gap = 8});
}

TEST_F(Cudnn, SinksInPrefill) {
  for (const PrefillForm form : {PrefillForm::kDense, PrefillForm::kRagged, PrefillForm::kPaged}) {
    PrefillShape shape{.form = form, .qo_lens = {40, 40}, .kv_lens = {70, 70}, .sinks = true};
    if (form != PrefillForm::kDense) shape.kv_lens = {70, 0};
    shape.options.causal = true;
    shape.options.lse_base = LseBase::kNatural;
    SCOPED_TRACE(static_cast<int>(form));
    expect_reference(shape);
  }
}

TEST_F(Cudnn, ScalesOfEverySign) {
  for (const double scale : {0.0, 0.3, -0.1}) {
    PrefillShape shape;
    shape.options.scale = scale;
    SCOPED_TRACE(scale);
    expect_reference(shape);
  }
}

TEST_F(Cudnn, DecodeRows) {
  for (const int q_len : {1, 2, 4, 16}) {
    for (const bool dense_table : {false, true}) {
      DecodeShape shape{
          .kv_lens = {1, 63, 0, 200, 1500}, .q_len = q_len, .dense_table = dense_table};
      if (dense_table) shape.index = DType::kInt64;
      SCOPED_TRACE(testing::Message() << q_len << dense_table);
      expect_reference(shape);
    }
  }
}

TEST_F(Cudnn, DecodeLayoutsAndPageSizes) {
  for (const int page_size : {1, 4, 64}) {
    DecodeShape shape{.kv_lens = {5, 129, 700}, .page_size = page_size};
    shape.options.kv_layout = page_size == 4 ? KvLayout::kNhd : KvLayout::kHnd;
    SCOPED_TRACE(page_size);
    expect_reference(shape);
  }
}

TEST_F(Cudnn, DecodeWindowsAndSinks) {
  for (const int q_len : {1, 4}) {
    for (const std::int64_t window : {-1, 30}) {
      for (const bool sinks : {false, true}) {
        if (window < 0 && !sinks) continue;
        DecodeShape shape{.kv_lens = {0, 2, 65, 900}, .q_len = q_len, .sinks = sinks};
        shape.options.window_left = window;
        shape.options.lse_base = LseBase::kNatural;
        SCOPED_TRACE(testing::Message() << q_len << " " << window << sinks);
        expect_reference(shape);
      }
    }
  }
}

TEST_F(Cudnn, DecodeHeadDimsAndGroups) {
  for (const int dim : {64, 256}) expect_reference(DecodeShape{.kv_lens = {90, 300}, .dim = dim});
  for (const int group : {1, 7}) {
    expect_reference(DecodeShape{.kv_lens = {90, 300}, .heads_q = 2 * group});
  }
}

TEST_F(Cudnn, OneKeyAndOneRow) {
  expect_reference(DecodeShape{.kv_lens = {1, 1}, .page_size = 1});
  expect_reference(PrefillShape{.form = PrefillForm::kDense, .qo_lens = {1}, .kv_lens = {1}});
}

TEST_F(Cudnn, CapturedGraphServesNewLengths) {
  DecodeShape shape{.kv_lens = {1500, 1200}, .reserve_keys = 1600};
  DecodeCase c(shape, 9);
  c.set_length(0, 2);
  c.set_length(1, 40);
  DecodePagedArgs args = c.device();
  const Plan plan = plan_on(cuda(), args, c.options);
  DeviceBuffer workspace = DeviceBuffer::allocate(gpu(), plan.workspace_bytes()).value();
  Stream stream = Stream::create(gpu()).value();
  const auto run = [&] {
    return plan.run(cuda(), args, {workspace.data(), workspace.bytes()}, stream.handle());
  };
  Recording recording = Recording::capture(stream, run).value();
  for (const auto& [first, second] : {std::pair{2, 40}, {1500, 1200}, {0, 777}}) {
    c.set_length(0, first);
    c.set_length(1, second);
    (void)c.device();  // same addresses, new lengths
    recording.replay(stream).throw_if_error();
    stream.synchronize().throw_if_error();
    SCOPED_TRACE(testing::Message() << first << " " << second);
    compare(c, plan.explain());
  }
}

TEST_F(Cudnn, UnbuiltGraphIsNotBuiltInACapture) {
  Context fresh = Context::create({.device = gpu()}).value();
  DecodeCase c(DecodeShape{.kv_lens = {77}}, 2);
  const DecodePagedArgs args = c.device();
  AttentionOptions options = c.options;
  options.backend = Backend::kCudnn;
  const Plan plan = plan_on(cuda(), args, options);  // built in another context
  DeviceBuffer workspace = DeviceBuffer::allocate(gpu(), plan.workspace_bytes()).value();
  Stream stream = Stream::create(gpu()).value();
  const auto run = [&] {
    return plan.run(fresh, args, {workspace.data(), workspace.bytes()}, stream.handle());
  };
  const Result<Recording> recording = Recording::capture(stream, run);
  ASSERT_FALSE(recording.ok());
  EXPECT_NE(recording.status().message().find("capturing"), std::string::npos)
      << recording.status().message();
  EXPECT_TRUE(run().ok());
  EXPECT_TRUE(Recording::capture(stream, run).ok());
}

TEST_F(Cudnn, LengthPastTheDeclaredMaximumGivesNan) {
  DecodeShape shape{.kv_lens = {500, 100}};
  shape.options.max_kv_len = 256;
  DecodeCase c(shape, 4);
  const DecodePagedArgs args = c.device();
  run_on_gpu(plan_on(cuda(), args, c.options), args);
  const auto o = c.o().read();
  EXPECT_TRUE(std::isnan(load_float(o.data(), shape.dtype, 0)));
  EXPECT_TRUE(std::isfinite(load_float(o.data(), shape.dtype, shape.heads_q * shape.dim)));
}

// Not a part of its rows: those past the maximum would keep what o held before.
TEST_F(Cudnn, RowsPastTheDeclaredMaximumGiveNan) {
  PrefillShape shape{.qo_lens = {100, 20}, .kv_lens = {100, 40}};
  shape.options.max_qo_len = 64;
  PrefillCase c(shape, 4);
  const CallArgs args = c.device();
  run_on_gpu(plan_on(cuda(), args, c.options), args);
  const auto o = c.o().read();
  const std::int64_t row = std::int64_t{shape.heads_q} * shape.dim;
  for (const std::int64_t at : {0, 63, 64, 99}) {
    EXPECT_TRUE(std::isnan(load_float(o.data(), shape.dtype, at * row))) << at;
  }
  for (const std::int64_t at : {100, 119}) {
    EXPECT_TRUE(std::isfinite(load_float(o.data(), shape.dtype, at * row))) << at;
  }
}

}  // namespace
}  // namespace tilegate::test
