// SPDX-License-Identifier: Apache-2.0
// Laws of plans: buffers may move and lengths may change between runs; shapes, strides, dtypes and
// the kind of call may not; the workspace must be as large as asked for and aligned.
#include "tests/op/calls/catalog.h"
#include "tests/op/oracle/attention_law.h"
#include "tests/op/oracle/delta_law.h"

namespace laws {
namespace {

using tilegate::StatusCode;

class PlanReuse : public Law {
 protected:
  void expect_refused(const tilegate::Plan& plan, Call& call, const std::string& argument) {
    call.set_backend(backend());
    const tilegate::Status status = run_plan(plan, call);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.to_string();
    EXPECT_NE(status.message().find(argument), std::string::npos) << status.message();
  }
};

TEST_P(PlanReuse, BuffersMayMove) {
  for (const CatalogEntry& entry : catalog()) {
    const auto planned = entry.make(), moved = entry.make(), fresh = entry.make();
    const auto plan = make_plan(*planned);
    if (plan == nullptr) continue;
    moved->set_backend(backend());
    ASSERT_TRUE(run_plan(*plan, *moved).ok()) << entry.name;
    if (run(*fresh)) expect_same_outputs(*fresh, *moved, entry.name + ", moved buffers");
  }
}

TEST_P(PlanReuse, AttentionLengthsMayChange) {
  const AttentionShape planned_shape = {
      .qo_lens = {2, 2, 2}, .kv_lens = {2, 1, 3}, .dim_qk = head_dim(32)};
  const Dims other_lens = {190, 0, 110};
  for (const auto form : {AttentionCall::Form::kPaged, AttentionCall::Form::kDecode}) {
    const auto build = [&](const Dims& lens) {
      AttentionShape shape = planned_shape;
      shape.kv_lens = lens;
      const PagedForm pages = {.page_size = 16, .table = Table::kDense};
      const AttentionCall ragged = make_ragged(shape);
      AttentionCall call =
          form == AttentionCall::Form::kPaged ? as_paged(ragged, pages) : as_decode(ragged, pages);
      // The pool and the table are as large as the longest request ever needs.
      const auto grown = [](const Tensor& t, int dim, std::int64_t size) {
        Dims full = t.shape();
        full[static_cast<std::size_t>(dim)] = size;
        Tensor large = Tensor::packed(t.dtype(), full);
        large.slice(dim, 0, t.dim(dim)).copy_from(t);
        return large;
      };
      call.k = grown(call.k, 0, 40);
      call.v = grown(call.v, 0, 40);
      call.block_tables = grown(call.block_tables, 1, 20);
      call.options.max_kv_len = 200;
      return call;
    };
    AttentionCall planned = build(planned_shape.kv_lens), longer = build(other_lens);
    const auto plan = make_plan(planned);
    if (plan == nullptr) continue;
    longer.options = planned.options;
    ASSERT_TRUE(run_plan(*plan, longer).ok());
    const AttentionAnswer expected = attention_oracle(longer);
    expect_close(longer.o_rows(), expected.o, tolerance(Quantity::kAttention, longer.o.dtype()),
                 "o at other lengths");
    expect_close(longer.lse_rows(), expected.lse, tolerance(Quantity::kLse, longer.o.dtype()),
                 "lse at other lengths");
  }
}

TEST_P(PlanReuse, LengthsPastTheDeclaredMaximumAreRefused) {
  if (!on_cpu_device()) GTEST_SKIP() << "lengths are the caller's promise on a GPU";
  AttentionCall call = as_paged(make_ragged({.qo_lens = {2, 2}, .kv_lens = {9, 30}}));
  call.options.max_kv_len = 29;
  tilegate::Status status = attempt(call);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.to_string();
  EXPECT_NE(status.message().find("max_kv_len"), std::string::npos) << status.message();
  AttentionCall rows = make_ragged({.qo_lens = {2, 20}, .kv_lens = {9, 30}});
  rows.options.max_qo_len = 19;
  status = attempt(rows);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.to_string();
  EXPECT_NE(status.message().find("max_qo_len"), std::string::npos) << status.message();
}

TEST_P(PlanReuse, SequenceLengthsMayChange) {
  for (const tilegate::DeltaRule rule : kChunkRules) {
    DeltaShape shape;
    shape.rule = rule;
    shape.dim_k = shape.dim_v = 32;
    shape.lens = lengths({60, 30, 10, 0});
    DeltaCall planned = make_delta(shape);
    shape.lens = lengths({0, 10, 60, 30});  // as many in all
    DeltaCall other = make_delta(shape);
    const auto plan = make_plan(planned);
    if (plan == nullptr) continue;
    other.options = planned.options;
    const DeltaAnswer expected = delta_oracle(other);
    ASSERT_TRUE(run_plan(*plan, other).ok()) << label(other);
    expect_close(other.o_rows(), expected.o, tolerance(Quantity::kDelta, shape.dtype),
                 "o at other lengths");
    expect_close(other.output_state, expected.all_final_states(),
                 tolerance(Quantity::kState, shape.dtype), "state at other lengths");
  }
}

TEST_P(PlanReuse, OtherShapesStridesAndDtypesAreRefused) {
  AttentionCall planned = make_ragged({});
  const auto plan = make_plan(planned);
  if (plan == nullptr) return;
  AttentionCall longer = make_ragged({.qo_lens = {5, 18}, .kv_lens = {5, 18}});
  expect_refused(*plan, longer, "q");
  AttentionCall strided = make_ragged({});
  strided.k = strided.k.with_strides({200, 64, 1});
  expect_refused(*plan, strided, "k");
  AttentionCall bf16 = make_ragged({.dtype = tilegate::DType::kBFloat16});
  expect_refused(*plan, bf16, "q");
  AttentionCall wide = make_ragged({.index = tilegate::DType::kInt64});
  expect_refused(*plan, wide, "qo_indptr");
  AttentionCall no_lse = make_ragged({});
  no_lse.lse = {};
  expect_refused(*plan, no_lse, "lse");
  AttentionCall sinks = make_ragged({});
  sinks.sinks = Tensor::packed(tilegate::DType::kFloat32, {4}).fill(0.0);
  expect_refused(*plan, sinks, "sinks");
  AttentionCall paged = as_paged(make_ragged({}));
  expect_refused(*plan, paged, "");
  DeltaCall delta = make_delta({});
  expect_refused(*plan, delta, "");
}

TEST_P(PlanReuse, OtherStatesAreRefused) {
  DeltaCall planned = make_delta({});
  planned.use_pool();
  const auto plan = make_plan(planned);
  if (plan == nullptr) return;
  DeltaCall bf16 = make_delta({.state_dtype = tilegate::DType::kBFloat16});
  bf16.use_pool();
  expect_refused(*plan, bf16, "state");
  DeltaCall gaps = make_delta({});
  gaps.use_pool();
  gaps.state_pool = gaps.state_pool.with_strides({9000, 4200, 64, 1});
  expect_refused(*plan, gaps, "state");
  DeltaCall writes = make_delta({});
  writes.use_pool();
  writes.output_state_indices = writes.state_indices.clone();
  expect_refused(*plan, writes, "output_state_indices");
}

TEST_P(PlanReuse, TheWorkspaceIsChecked) {
  for (const CatalogEntry& entry : catalog()) {
    const auto call = entry.make();
    const auto plan = make_plan(*call);
    if (plan == nullptr || plan->workspace_bytes() == 0) continue;
    std::vector<std::byte> storage(plan->workspace_bytes() + 512);
    auto address = reinterpret_cast<std::uintptr_t>(storage.data());
    address = (address + 255) / 256 * 256;
    auto* aligned = reinterpret_cast<std::byte*>(address);
    for (const tilegate::Workspace workspace :
         {tilegate::Workspace{}, tilegate::Workspace{aligned, plan->workspace_bytes() - 1}}) {
      const tilegate::Status status = plan->run(context(), call->args(), workspace);
      EXPECT_EQ(status.code(), StatusCode::kOutOfWorkspace) << status.to_string();
      EXPECT_NE(status.message().find(std::to_string(plan->workspace_bytes())), std::string::npos)
          << status.message();
    }
    const tilegate::Status odd =
        plan->run(context(), call->args(), {aligned + 16, plan->workspace_bytes()});
    EXPECT_EQ(odd.code(), StatusCode::kInvalidArgument) << odd.to_string();
    const auto untouched = entry.make();
    expect_same_outputs(*untouched, *call, entry.name + ", refused workspace");
  }
}

TEST_P(PlanReuse, OtherPagedShapesStridesAndDtypesAreRefused) {
  const auto decode = [](tilegate::DType dtype, const PagedForm& form) {
    return as_decode(make_ragged({.qo_lens = {3, 3}, .kv_lens = {9, 17}, .dtype = dtype}), form);
  };
  AttentionCall planned = decode(plain_dtype(), {});
  const auto plan = make_plan(planned);
  if (plan == nullptr) return;
  AttentionCall strided = decode(plain_dtype(), {});
  strided.v = strided.v.with_strides({900, 200, 80, 1});
  expect_refused(*plan, strided, "v_cache must");
  AttentionCall pages = decode(plain_dtype(), {.page_size = 8});
  expect_refused(*plan, pages, "k_cache must");
  AttentionCall layout = decode(plain_dtype(), {.layout = tilegate::KvLayout::kHnd});
  expect_refused(*plan, layout, "k_cache must");
  AttentionCall table = decode(plain_dtype(), {.table = Table::kDense});
  expect_refused(*plan, table, "");
  AttentionCall bf16 = decode(tilegate::DType::kBFloat16, {});
  expect_refused(*plan, bf16, "q");
}

LAWS_ON_EVERY_BACKEND(PlanReuse);

}  // namespace
}  // namespace laws
