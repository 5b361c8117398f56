// SPDX-License-Identifier: Apache-2.0
// The entries. A call of the family of delta rules appears with own states and with a pool.
#include "tests/op/calls/catalog.h"

#include "tests/op/calls/attention_call.h"
#include "tests/op/calls/delta_call.h"
#include "tests/op/calls/small_calls.h"
#include "tests/op/harness/compare.h"

namespace laws {
namespace {

using tilegate::DeltaRule;
using tilegate::DType;

AttentionCall attention(DType dtype, bool decode) {
  AttentionShape shape = {.qo_lens = {70, 3, 0, 33},
                          .kv_lens = {300, 3, 5, 150},
                          .dim_qk = head_dim(32),
                          .dtype = dtype};
  if (decode) shape.qo_lens = {2, 2, 2, 2};
  AttentionCall call = make_ragged(shape);
  call.options.causal = true;
  call.sinks = Random(2).normals(Tensor::packed(DType::kFloat32, {4}));
  return call;
}

// Keys enough for every kernel's own split, on few heads.
AttentionCall long_attention(std::int64_t rows, std::int64_t keys) {
  AttentionCall call = make_ragged({.qo_lens = {rows, rows},
                                    .kv_lens = {keys, 40},
                                    .heads_q = 2,
                                    .heads_kv = 1,
                                    .dim_qk = head_dim(16)});
  call.options.causal = true;
  return call;
}

DeltaCall delta(DeltaRule rule, DType dtype) {
  DeltaShape shape;
  shape.rule = rule;
  shape.dtype = dtype;
  shape.lens = lengths({200, 3, 0, 90});
  if (rule == DeltaRule::kGatedDeltaRuleDecode) shape.lens = {3, 3};
  shape.dim_k = shape.dim_v = 32;
  shape.householder = rule == DeltaRule::kGatedDeltaProduct ? 2 : 1;
  return make_delta(shape);
}

AppendCall append() {
  const AttentionCall full = as_paged(make_ragged({.qo_lens = {1, 1}, .kv_lens = {300, 6}}));
  AppendCall call;
  call.kv_indptr = full.kv_indptr;
  call.kv_indices = full.kv_indices;
  call.kv_last_page_len = full.kv_last_page_len;
  call.k_cache = full.k;
  call.v_cache = full.v;
  Random random(4);
  call.k = random.normals(Tensor::packed(call.k_cache.dtype(), {40, 2, 64}));
  call.v = random.normals(Tensor::packed(call.k_cache.dtype(), {40, 2, 64}));
  Dims requests(40, 0), positions;
  for (std::int64_t t = 0; t < 40; ++t) positions.push_back(7 * t);
  call.batch_indices = Tensor::indices(requests);
  call.positions = Tensor::indices(positions);
  return call;
}

MergeCall merge() {
  Random random(6);
  Tensor v = random.normals(Tensor::packed(DType::kBFloat16, {50, 3, 4, 64}));
  Tensor s = random.normals(Tensor::packed(DType::kFloat32, {50, 3, 4}));
  return make_merge(v, s);
}

CommitCall commit() {
  Random random(8);
  CommitCall call;
  call.state_pool = random.normals(Tensor::packed(DType::kFloat32, {6, 2, 32, 32}));
  call.state_indices = Tensor::indices({4, 0, 3});
  call.record_k = random.unit_rows(Tensor::packed(DType::kFloat32, {3, 4, 2, 32}));
  call.record_d = random.normals(Tensor::packed(DType::kFloat32, {3, 4, 2, 32}));
  call.record_decay = random.uniforms(Tensor::packed(DType::kFloat32, {3, 4, 2}), -0.2, 0.0);
  call.accepted = Tensor::indices({2, 0, 4});
  return call;
}

template <class C>
CatalogEntry entry(std::string name, std::function<C()> make) {
  return {std::move(name), [make] { return std::make_unique<C>(make()); }};
}

}  // namespace

std::vector<CatalogEntry> catalog() {
  std::vector<CatalogEntry> entries;
  for (const DType dtype : {plain_dtype(), DType::kBFloat16}) {
    const std::string suffix = " " + std::string(tilegate::to_string(dtype));
    entries.push_back(
        entry<AttentionCall>("ragged" + suffix, [=] { return attention(dtype, false); }));
    entries.push_back(entry<AttentionCall>(
        "paged" + suffix, [=] { return as_paged(attention(dtype, false), {.page_size = 16}); }));
    entries.push_back(entry<AttentionCall>(
        "decode" + suffix, [=] { return as_decode(attention(dtype, true), {.page_size = 16}); }));
  }
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const DeltaRule rule :
         {DeltaRule::kGatedDeltaRule, DeltaRule::kGatedDeltaRule2, DeltaRule::kGatedDeltaProduct,
          DeltaRule::kKda, DeltaRule::kGatedDeltaRuleDecode}) {
      const std::string name = label(delta(rule, dtype));
      entries.push_back(entry<DeltaCall>(name, [=] { return delta(rule, dtype); }));
      entries.push_back(entry<DeltaCall>(name + " pool", [=] {
        DeltaCall call = delta(rule, dtype);
        call.use_pool();
        return call;
      }));
    }
  }
  entries.push_back(entry<AttentionCall>("long ragged", [] { return long_attention(2, 4200); }));
  entries.push_back(entry<AttentionCall>(
      "long decode", [] { return as_decode(long_attention(1, 2100), {.page_size = 16}); }));
  entries.push_back(entry<AppendCall>("append", append));
  entries.push_back(entry<MergeCall>("merge", merge));
  entries.push_back(entry<CommitCall>("commit", commit));
  return entries;
}

void expect_same_outputs(Call& a, Call& b, const std::string& label) {
  const std::vector<Argument> of_a = a.arguments(), of_b = b.arguments();
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    if (of_a[i].role != Role::kOut || !of_a[i].tensor->present()) continue;
    expect_same_bits(*of_b[i].tensor, *of_a[i].tensor, of_a[i].name + " of " + label);
  }
}

}  // namespace laws
