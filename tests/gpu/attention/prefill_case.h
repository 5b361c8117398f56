// SPDX-License-Identifier: Apache-2.0
// A random prefill call in host memory and its copy on the GPU: dense, ragged or paged, with rows
// past the last offset, and slots of pages that no request owns, holding NaN.
#pragma once

#include "tests/gpu/attention/paged_case.h"

namespace tilegate::test {

enum class PrefillForm { kDense, kRagged, kPaged };

struct PrefillShape {
  PrefillForm form = PrefillForm::kRagged;
  std::vector<int> qo_lens{17, 60};
  std::vector<int> kv_lens{33, 60};
  int heads_q = 4;
  int heads_kv = 2;
  int dim = 128;
  int dim_v = 0;    // 0: dim; not with pages
  int row_gap = 0;  // elements between the rows of q, k and v (packed projections); not with pages
  int batch_gap = 0;   // rows between the requests of a dense q
  int spare_rows = 3;  // not when dense
  int page_size = 16;
  DType dtype = DType::kBFloat16;
  DType index = DType::kInt32;
  int nan_request = -1;  // its values are NaN; not with pages
  bool sinks = false;
  bool lse = true;
  AttentionOptions options{};
};

class PrefillCase {
 public:
  PrefillCase(const PrefillShape& shape, std::uint64_t seed)
      : shape_(shape), random_(seed), pages_(decode_shape(shape), seed + 1) {
    options = shape.options;
    const int dim_v = shape.dim_v > 0 ? shape.dim_v : shape.dim;
    rows_ = sum(shape.qo_lens) + spare();
    const auto batch = static_cast<std::int64_t>(shape.qo_lens.size());
    keys_ = sum(shape.kv_lens) + spare();
    const std::int64_t gaps = batch * shape.batch_gap;
    q_ = filled(rows_ + gaps, shape.heads_q, shape.dim, sum(shape.qo_lens) + gaps);
    k_ = filled(keys_, shape.heads_kv, shape.dim, sum(shape.kv_lens));
    v_ = filled(keys_, shape.heads_kv, dim_v, sum(shape.kv_lens));
    for (std::int64_t i = 0; shape.nan_request >= 0 && i < v_.shape().numel(); ++i) {
      const std::int64_t row = i / (shape.heads_kv * (dim_v + shape.row_gap));
      const auto begin = shape.kv_lens.begin();
      const std::int64_t first = std::accumulate(begin, begin + shape.nan_request, 0);
      if (row < first || row >= first + shape.kv_lens[shape.nan_request]) continue;
      v_.set(i, std::numeric_limits<float>::quiet_NaN());
    }
    o_ = Tensor(shape.dtype, {rows_, shape.heads_q, dim_v});
    lse_ = Tensor(DType::kFloat32, {rows_, shape.heads_q});
    o_.fill(random_, 7.0f);  // rows of requests must be written, others must not
    lse_.fill(random_, 7.0f);
    if (shape.sinks) {
      sinks_ = Tensor(DType::kFloat32, {shape.heads_q});
      sinks_.fill(random_, 2.0f);
    }
    qo_indptr_ = offsets(shape.qo_lens);
    kv_indptr_ = offsets(shape.kv_lens);
  }

  CallArgs host() { return args(&Tensor::host); }
  CallArgs device() { return args(&Tensor::device); }
  Tensor& o() { return o_; }
  Tensor& lse() { return lse_; }

  AttentionOptions options{};

 private:
  static std::int64_t sum(const std::vector<int>& lens) {
    return std::accumulate(lens.begin(), lens.end(), std::int64_t{0});
  }
  static DecodeShape decode_shape(const PrefillShape& shape) {
    DecodeShape pool;
    pool.kv_lens = shape.form == PrefillForm::kPaged ? shape.kv_lens : std::vector<int>{1};
    pool.heads_q = shape.heads_q, pool.heads_kv = shape.heads_kv, pool.dim = shape.dim;
    pool.page_size = shape.page_size;
    pool.dtype = shape.dtype, pool.index = shape.index;
    pool.options.kv_layout = shape.options.kv_layout;
    return pool;
  }
  std::int64_t spare() const { return shape_.form == PrefillForm::kDense ? 0 : shape_.spare_rows; }

  Tensor filled(std::int64_t rows, int heads, int dim, std::int64_t used) {
    Tensor tensor(shape_.dtype, {rows, heads, dim + shape_.row_gap});
    for (std::int64_t i = 0; i < tensor.shape().numel(); ++i) {
      const bool poison = i >= used * heads * (dim + shape_.row_gap);
      tensor.set(i, poison ? std::numeric_limits<float>::quiet_NaN() : random_.uniform());
    }
    return tensor;
  }

  Tensor offsets(const std::vector<int>& lens) {
    Tensor indptr(shape_.index, {static_cast<std::int64_t>(lens.size()) + 1});
    std::int64_t at = 0;
    indptr.set_index(0, 0);
    for (std::size_t b = 0; b < lens.size(); ++b) {
      indptr.set_index(static_cast<std::int64_t>(b) + 1, at += lens[b]);
    }
    return indptr;
  }

  // Without the gap, and by request when dense.
  TensorView form(TensorView view, int batch_gap = 0) const {
    if (view.rank == 3) view.shape[2] -= view.shape[2] > shape_.dim ? shape_.row_gap : 0;
    if (shape_.form != PrefillForm::kDense) return view;
    TensorView dense = view;
    const auto batch = static_cast<std::int64_t>(shape_.qo_lens.size());
    dense.rank = 4;
    dense.shape = {batch, view.shape[0] / batch, view.shape[1], view.shape[2]};
    dense.strides = {view.strides[0] * dense.shape[1], view.strides[0], view.strides[1], 1};
    dense.shape[1] -= batch_gap;
    return dense;
  }

  CallArgs args(TensorView (Tensor::*view)()) {
    if (shape_.form == PrefillForm::kPaged) {
      DecodePagedArgs pool = view == &Tensor::host ? pages_.host() : pages_.device();
      PrefillPagedArgs a;
      a.q = (q_.*view)();
      a.k_cache = pool.k_cache;
      a.v_cache = pool.v_cache;
      a.table = pool.table;
      a.qo_indptr = (qo_indptr_.*view)();
      if (shape_.sinks) a.sinks = (sinks_.*view)();
      a.o = (o_.*view)();
      if (shape_.lse) a.lse = (lse_.*view)();
      return a;
    }
    PrefillRaggedArgs a;
    a.q = form((q_.*view)(), shape_.batch_gap);
    a.k = form((k_.*view)());
    a.v = form((v_.*view)());
    if (shape_.form == PrefillForm::kRagged) {
      a.qo_indptr = (qo_indptr_.*view)();
      a.kv_indptr = (kv_indptr_.*view)();
    }
    if (shape_.sinks) a.sinks = (sinks_.*view)();
    a.o = form((o_.*view)());
    if (shape_.lse) a.lse = (lse_.*view)();
    return a;
  }

  PrefillShape shape_;
  Random random_;
  DecodeCase pages_;
  std::int64_t rows_ = 0;
  std::int64_t keys_ = 0;
  Tensor q_, k_, v_, o_, lse_, sinks_, qo_indptr_, kv_indptr_;
};

}  // namespace tilegate::test
