// SPDX-License-Identifier: Apache-2.0
// Law: o and lse are the formula's, for every dtype, head dim, group size, length and form.
#include "tests/op/oracle/attention_law.h"

namespace laws {
namespace {

class AttentionShapes : public AttentionLaw {};

TEST_P(AttentionShapes, EveryDtypeInEveryForm) {
  for (tilegate::DType dtype : float_dtypes()) {
    AttentionCall call = make_ragged({.qo_lens = {3, 3, 3}, .kv_lens = {9, 3, 40}, .dtype = dtype});
    expect_oracle_in_every_form(call);
    call.options.causal = true;
    expect_oracle_in_every_form(call, "causal");
    expect_oracle_in_every_form(
        make_ragged({.qo_lens = {7, 7}, .kv_lens = {19, 19}, .dtype = dtype}));
  }
}

TEST_P(AttentionShapes, HeadDims) {
  struct Pair {
    std::int64_t qk, v;
  };
  for (const Pair dim :
       {Pair{8, 8}, {24, 24}, {64, 64}, {72, 40}, {128, 128}, {192, 128}, {256, 256}}) {
    for (tilegate::DType dtype : {plain_dtype(), tilegate::DType::kBFloat16}) {
      // A graph a shape, each a second: cuDNN's dtypes have their own law.
      if (on(tilegate::Backend::kCudnn) && dtype != tilegate::DType::kBFloat16) continue;
      AttentionCall call = make_ragged({.qo_lens = {11},
                                        .kv_lens = {29},
                                        .heads_q = 2,
                                        .heads_kv = 1,
                                        .dim_qk = dim.qk,
                                        .dim_v = dim.v,
                                        .dtype = dtype});
      call.options.causal = true;
      expect_oracle_in_every_form(call);
    }
  }
}

// Not multiples of a vector: served right or rejected by name, never wrong.
TEST_P(AttentionShapes, OddHeadDims) {
  may_reject();
  for (const std::int64_t dim : {1, 3, 7, 20, 65, 129, 260}) {
    AttentionCall call = make_ragged({.dim_qk = dim, .dtype = tilegate::DType::kFloat16});
    expect_oracle_in_every_form(call);
  }
}

TEST_P(AttentionShapes, GroupSizes) {
  for (const std::int64_t group : {1, 2, 3, 4, 6, 8, 16}) {
    for (const std::int64_t heads_kv : {1, 2}) {
      AttentionCall call = make_ragged({.qo_lens = {2, 2},
                                        .kv_lens = {5, 13},
                                        .heads_q = group * heads_kv,
                                        .heads_kv = heads_kv,
                                        .dtype = tilegate::DType::kFloat16});
      expect_oracle_in_every_form(call, "group " + std::to_string(group));
    }
  }
}

// Every length from 1 to 130 crosses every tile edge of every kernel.
TEST_P(AttentionShapes, LengthsFrom1To130) {
  Dims lens;
  for (std::int64_t n = 1; n <= 130; ++n) lens.push_back(n);
  AttentionCall call = make_ragged(
      {.qo_lens = lens, .kv_lens = lens, .heads_q = 1, .heads_kv = 1, .dim_qk = head_dim(16)});
  call.options.causal = true;
  expect_oracle(call);
  expect_oracle(as_paged(call, {.page_size = 16}));
  const Dims one_row(lens.size(), 1);
  expect_oracle(as_decode(make_ragged({.qo_lens = one_row,
                                       .kv_lens = lens,
                                       .heads_q = 2,
                                       .heads_kv = 1,
                                       .dim_qk = head_dim(16)}),
                          {.page_size = 16}));
}

TEST_P(AttentionShapes, CrossAttentionOfUnequalLengths) {
  for (const bool causal : {false, true}) {
    AttentionCall call = make_ragged({.qo_lens = {1, 65, 2, 130},
                                      .kv_lens = {70, 3, 129, 64},
                                      .heads_q = 2,
                                      .heads_kv = 1,
                                      .dim_qk = head_dim(32)});
    call.options.causal = causal;
    expect_oracle_in_every_form(call, causal ? "causal" : "full");
  }
}

TEST_P(AttentionShapes, PageSizes) {
  const AttentionCall call = make_ragged({.qo_lens = {4, 4, 4}, .kv_lens = {1, 33, 64}});
  for (const std::int64_t page_size : {1, 2, 3, 16, 33, 64, 128}) {
    for (const auto layout : {tilegate::KvLayout::kNhd, tilegate::KvLayout::kHnd}) {
      for (const Table table : {Table::kCsr, Table::kDense}) {
        const PagedForm form = {.page_size = page_size, .layout = layout, .table = table};
        const std::string note = "page_size " + std::to_string(page_size);
        expect_oracle(as_paged(call, form), note);
        expect_oracle(as_decode(call, form), note);
      }
    }
  }
}

// A page number past 16 bits and past 2^17 is not cut short.
TEST_P(AttentionShapes, PageNumbersPast16Bits) {
  const AttentionCall call = make_ragged(
      {.qo_lens = {1, 1}, .kv_lens = {3, 1}, .heads_q = 2, .heads_kv = 1, .dim_qk = head_dim(8)});
  for (const Table table : {Table::kCsr, Table::kDense}) {
    const PagedForm form = {
        .page_size = 1, .table = table, .first_pages = {65536, 131073, 1, 65537}};
    expect_oracle(as_paged(call, form));
    expect_oracle(as_decode(call, form));
  }
}

TEST_P(AttentionShapes, DecodeRows1To16) {
  for (std::int64_t rows = 1; rows <= 16; ++rows) {
    AttentionCall call = make_ragged(
        {.qo_lens = {rows, rows}, .kv_lens = {40, rows}, .dtype = tilegate::DType::kBFloat16});
    expect_oracle(as_decode(call));
  }
}

TEST_P(AttentionShapes, LongKeysAreSplitRight) {
  AttentionCall call = make_ragged({.qo_lens = {1, 1},
                                    .kv_lens = {1500, 4},
                                    .heads_q = 2,
                                    .heads_kv = 1,
                                    .dim_qk = head_dim(32),
                                    .dtype = tilegate::DType::kBFloat16});
  for (const std::int64_t split : {0, 16, 128, 700, 4096}) {
    call.options.fixed_split_size = split;
    expect_oracle_in_every_form(call, "split " + std::to_string(split));
  }
  call.options.fixed_split_size = 0;
  call.options.disable_split_kv = true;
  expect_oracle_in_every_form(call, "one split");
}

LAWS_ON_EVERY_BACKEND(AttentionShapes);

}  // namespace
}  // namespace laws
