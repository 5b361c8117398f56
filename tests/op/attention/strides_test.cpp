// SPDX-License-Identifier: Apache-2.0
// Law: strides are honoured. The same values in another layout give the same bits; only the
// innermost dimension must be contiguous; outputs must not overlap.
#include "tests/op/oracle/attention_law.h"

namespace laws {
namespace {

class AttentionStrides : public AttentionLaw {
 protected:
  void expect_same(AttentionCall packed, AttentionCall strided, const std::string& note) {
    packed.reset_outputs();
    if (!run(packed) || !run(strided)) return;
    expect_same_bits(strided.o_rows(), packed.o_rows(), "o of " + note);
    if (strided.lse.present()) {
      expect_same_bits(strided.lse_rows(), packed.lse_rows(), "lse of " + note);
    }
  }
  // `gap` more elements after every row, and so on outwards.
  static Tensor pitched(const Tensor& t, std::int64_t gap) {
    Dims strides = packed_strides(t.shape());
    for (std::size_t d = strides.size() - 1; d-- > 0;) {
      strides[d] = strides[d + 1] * t.shape()[d + 1] + gap;
    }
    return t.with_strides(strides);
  }
  // The rejection must name the argument.
  void expect_invalid(AttentionCall call, const std::string& argument) {
    const tilegate::Status status = attempt(call);
    EXPECT_EQ(status.code(), tilegate::StatusCode::kInvalidArgument) << status.to_string();
    EXPECT_NE(status.message().find(argument), std::string::npos) << status.message();
  }
};

TEST_P(AttentionStrides, PackedQkv) {
  for (tilegate::DType dtype : float_dtypes()) {
    const AttentionCall packed = make_ragged({.heads_q = 4, .heads_kv = 2, .dtype = dtype});
    const std::int64_t rows = packed.q.dim(0);
    const Tensor qkv = Tensor::packed(dtype, {rows, 8, 64});
    AttentionCall call = packed;
    call.reset_outputs();
    call.q = qkv.slice(1, 0, 4);
    call.k = qkv.slice(1, 4, 6);
    call.v = qkv.slice(1, 6, 8);
    call.q.copy_from(packed.q);
    call.k.copy_from(packed.k);
    call.v.copy_from(packed.v);
    expect_same(packed, call, "packed qkv");
  }
}

TEST_P(AttentionStrides, GapsEverywhere) {
  for (tilegate::DType dtype : float_dtypes()) {
    const AttentionCall ragged =
        make_ragged({.qo_lens = {9, 9}, .kv_lens = {9, 17}, .dtype = dtype});
    // Gaps of any size, and of 16 bytes, which the GPU's copies need.
    for (const std::int64_t gap : {1, 8}) {
      for (const AttentionCall& packed : {ragged, as_decode(ragged)}) {
        AttentionCall call = packed;
        call.q = packed.q.with_strides({1000, 72 + gap, 1});
        call.k = pitched(packed.k, gap);
        call.v = pitched(packed.v, 4 * gap);
        call.o = Tensor::strided(dtype, packed.o.shape(), {64 + gap, 5600, 1});  // heads outermost
        call.lse = Tensor::strided(tilegate::DType::kFloat32, packed.lse.shape(), {9, 2});
        expect_same(packed, call, "gaps of " + std::to_string(gap));
      }
    }
  }
}

TEST_P(AttentionStrides, SizeOneDimsOfAnyStride) {
  const AttentionCall ragged =
      make_ragged({.qo_lens = {1}, .kv_lens = {9}, .heads_q = 1, .heads_kv = 1, .spare_rows = 0});
  for (const std::int64_t odd :
       {std::int64_t{0}, std::int64_t{1}, std::int64_t{-5}, std::int64_t{1} << 60}) {
    for (const AttentionCall& packed : {ragged, as_decode(ragged)}) {
      AttentionCall call = packed;
      call.reset_outputs();
      call.q = packed.q.reshaped(packed.q.shape(), {odd, odd, 1});
      Dims strides = packed.k.strides();
      strides[strides.size() - 2] = odd;
      call.k = packed.k.reshaped(packed.k.shape(), strides);
      call.o = call.o.reshaped(call.o.shape(), {odd, odd, 1});
      call.lse = call.lse.reshaped(call.lse.shape(), {odd, odd});
      expect_same(packed, call, "size-1 stride " + std::to_string(odd));
    }
  }
}

// Stride 0 expands one head, one row or one page to many.
TEST_P(AttentionStrides, ExpandedInputs) {
  for (tilegate::DType dtype : float_dtypes()) {
    const AttentionCall ragged =
        make_ragged({.qo_lens = {9, 9}, .kv_lens = {9, 17}, .dtype = dtype, .spare_rows = 0});
    const auto expand = [](const Tensor& t, std::size_t dim) {
      Dims strides = t.strides();
      strides[dim] = 0;
      return t.reshaped(t.shape(), strides);
    };
    for (AttentionCall packed : {ragged, as_decode(ragged)}) {
      AttentionCall call = packed;
      call.reset_outputs();
      const std::size_t heads = packed.k.shape().size() - 2;
      call.q = expand(packed.q, 0);
      call.k = expand(packed.k, heads);
      call.v = expand(packed.v, heads);
      packed.q = call.q.clone();
      packed.k = call.k.clone();
      packed.v = call.v.clone();
      expect_same(packed, call, "expanded q, k, v");
    }
  }
}

TEST_P(AttentionStrides, DenseBatchWithStrides) {
  const AttentionCall packed = as_dense(make_ragged({.qo_lens = {5, 5}, .kv_lens = {9, 9}}));
  AttentionCall call = packed;
  call.q = packed.q.with_strides({4000, 64, 400, 1});  // [B, H, S, D] in memory
  call.k = packed.k.with_strides({3000, 130, 1300, 1});
  call.o = Tensor::strided(packed.o.dtype(), packed.o.shape(), {2000, 64, 340, 1});
  AttentionCall base = packed;
  if (!run(base) || !run(call)) return;
  expect_same_bits(call.o, base.o, "o of a strided dense batch");
}

TEST_P(AttentionStrides, PagedPoolsOfEveryLayoutGiveTheSameBits) {
  for (tilegate::DType dtype : float_dtypes()) {
    const AttentionCall ragged =
        make_ragged({.qo_lens = {3, 3}, .kv_lens = {13, 40}, .dtype = dtype});
    const AttentionCall nhd = as_paged(ragged, {.page_size = 4});
    for (const auto layout : {tilegate::KvLayout::kNhd, tilegate::KvLayout::kHnd}) {
      for (const Pool pool : {Pool::kSeparate, Pool::kInterleaved}) {
        for (const Table table : {Table::kCsr, Table::kDense}) {
          const PagedForm form = {.page_size = 4, .layout = layout, .table = table, .pool = pool};
          expect_same(nhd, as_paged(ragged, form), "a paged layout");
          expect_same(as_decode(ragged, {.page_size = 4}), as_decode(ragged, form),
                      "a paged layout in decode");
        }
      }
    }
  }
}

// One pool for three layers: [pages, layers, page_size, heads, dim], this call's layer in the
// middle.
TEST_P(AttentionStrides, LayerInPagePools) {
  const AttentionCall ragged = make_ragged({.qo_lens = {2, 2}, .kv_lens = {9, 30}});
  for (const AttentionCall& packed : {as_paged(ragged), as_decode(ragged)}) {
    AttentionCall call = packed;
    call.reset_outputs();
    const Dims& s = packed.k.shape();
    const auto layer = [&](const Tensor& cache) {
      Tensor pool = Tensor::packed(cache.dtype(), {s[0], 3, s[1], s[2], s[3]});
      Tensor middle = pool.select(1, 1);
      middle.copy_from(cache);
      return middle;
    };
    call.k = layer(packed.k);
    call.v = layer(packed.v);
    expect_same(packed, call, "a layer-in-page pool");
  }
}

TEST_P(AttentionStrides, IndexTensorsOfBothWidths) {
  const AttentionCall ragged = make_ragged({.qo_lens = {3, 3}, .kv_lens = {6, 11}});
  const auto widen = [](AttentionCall call) {
    call.reset_outputs();
    for (Tensor* t : {&call.qo_indptr, &call.kv_indptr, &call.kv_indices, &call.kv_last_page_len,
                      &call.block_tables, &call.kv_lens_arg}) {
      *t = t->as(tilegate::DType::kInt64);
    }
    return call;
  };
  for (const AttentionCall& call :
       {ragged, as_paged(ragged), as_paged(ragged, {.table = Table::kDense}), as_decode(ragged)}) {
    expect_same(call, widen(call), "int64 indices of " + label(call));
  }
}

TEST_P(AttentionStrides, BlockTableRowsWithPitch) {
  const AttentionCall ragged = make_ragged({.qo_lens = {3, 3}, .kv_lens = {6, 11}});
  const PagedForm form = {.table = Table::kDense};
  for (const AttentionCall& packed : {as_paged(ragged, form), as_decode(ragged, form)}) {
    AttentionCall call = packed;
    call.reset_outputs();
    call.block_tables = packed.block_tables.with_strides({packed.block_tables.dim(1) + 5, 1});
    expect_same(packed, call, "a pitched block table");
  }
}

TEST_P(AttentionStrides, OverlappingOrNegativeOutputsAreRejected) {
  const AttentionCall packed = make_ragged({});
  const Dims& shape = packed.o.shape();
  for (const Dims& strides : {Dims{256, 0, 1}, Dims{256, 32, 1}, Dims{0, 64, 1}, Dims{64, 64, 1},
                              Dims{256, -64, 1}, Dims{256, 64, 2}, Dims{256, 64, -1}}) {
    AttentionCall call = packed;
    call.o = packed.o.reshaped(shape, strides);
    expect_invalid(call, "o must");
    AttentionCall paged = as_paged(packed);
    paged.o = paged.o.reshaped(shape, strides);
    expect_invalid(paged, "o must");
  }
  for (const Dims& strides : {Dims{4, 0}, Dims{0, 1}, Dims{1, 1}, Dims{-4, 1}}) {
    AttentionCall call = packed;
    call.lse = packed.lse.reshaped(packed.lse.shape(), strides);
    expect_invalid(call, "lse must");
  }
}

TEST_P(AttentionStrides, InnermostInputDimMustBeContiguous) {
  const AttentionCall packed = make_ragged({});
  AttentionCall call = packed;
  call.q = packed.q.with_strides({512, 128, 2});
  expect_invalid(call, "q must");
  call = packed;
  call.v = packed.v.with_strides({512, 128, 2});
  expect_invalid(call, "v must");
}

LAWS_ON_EVERY_BACKEND(AttentionStrides);

}  // namespace
}  // namespace laws
