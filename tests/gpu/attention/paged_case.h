// SPDX-License-Identifier: Apache-2.0
// A random paged decode call in host memory and its copy on the GPU. Pages are dealt in a shuffled
// order; every slot that no request owns holds NaN.
#pragma once

#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "core/element.h"
#include "tests/gpu/device.h"
#include "tilegate/device_memory.h"
#include "tilegate/tilegate.h"

namespace tilegate::test {

inline Device gpu() { return {DeviceType::kCuda, 0}; }

// A tensor in host memory with, once asked for, its copy on the GPU.
class Tensor {
 public:
  Tensor() = default;
  Tensor(DType dtype, std::initializer_list<std::int64_t> dims)
      : view_(TensorView::packed(nullptr, dtype, dims)),
        host_(static_cast<std::size_t>(view_.numel() * size_of(dtype))) {}

  TensorView host() {
    TensorView view = view_;
    view.data = host_.data();
    return view;
  }
  TensorView device() {
    if (view_.rank == 0) return {};
    if (buffer_.data() == nullptr) {
      buffer_ = std::move(DeviceBuffer::allocate(gpu(), host_.size())).value();
    }
    buffer_.copy_from_host(host_.data(), host_.size()).throw_if_error();
    TensorView view = view_;
    view.data = buffer_.data();
    view.device = gpu();
    return view;
  }
  std::vector<unsigned char> read() const {
    std::vector<unsigned char> bytes(host_.size());
    buffer_.copy_to_host(bytes.data(), bytes.size()).throw_if_error();
    return bytes;
  }
  void set(std::int64_t i, float x) { store_float(host_.data(), view_.dtype, i, x); }
  float get(std::int64_t i) const { return load_float(host_.data(), view_.dtype, i); }
  void set_index(std::int64_t i, std::int64_t x) {
    if (view_.dtype == DType::kInt64) reinterpret_cast<std::int64_t*>(host_.data())[i] = x;
    if (view_.dtype == DType::kInt32)
      reinterpret_cast<std::int32_t*>(host_.data())[i] = static_cast<std::int32_t>(x);
  }
  void fill(Random& random, float size) {
    for (std::int64_t i = 0; i < view_.numel(); ++i) set(i, size * random.uniform());
  }
  const TensorView& shape() const { return view_; }

 private:
  TensorView view_;
  std::vector<unsigned char> host_;
  DeviceBuffer buffer_;
};

struct DecodeShape {
  std::vector<int> kv_lens{100};
  int heads_q = 8;
  int heads_kv = 2;
  int dim = 128;
  int page_size = 16;
  int q_len = 1;
  DType dtype = DType::kBFloat16;
  DType index = DType::kInt32;
  bool dense_table = true;
  bool sinks = false;
  float size = 1.0f;     // of q and k
  int spare_pages = 3;   // NaN pages between the used ones
  int reserve_keys = 0;  // dense table columns for at least this many keys
  AttentionOptions options{};
};

class DecodeCase {
 public:
  DecodeCase(const DecodeShape& shape, std::uint64_t seed) : shape_(shape), random_(seed) {
    options = shape.options;
    options.q_len_per_req = shape.q_len;
    const auto batch = static_cast<std::int64_t>(shape.kv_lens.size());
    q_ = Tensor(shape.dtype, {batch * shape.q_len, shape.heads_q, shape.dim});
    o_ = Tensor(shape.dtype, {batch * shape.q_len, shape.heads_q, shape.dim});
    lse_ = Tensor(DType::kFloat32, {batch * shape.q_len, shape.heads_q});
    q_.fill(random_, shape.size);
    o_.fill(random_, 7.0f);  // poison: every element must be written
    lse_.fill(random_, 7.0f);
    if (shape.sinks) {
      sinks_ = Tensor(DType::kFloat32, {shape.heads_q});
      sinks_.fill(random_, 2.0f);
    }
    deal_pages();
    fill_caches();
  }

  DecodePagedArgs host() { return args(&Tensor::host); }
  DecodePagedArgs device() { return args(&Tensor::device); }
  void set_length(int request, int keys) { kv_lens_.set_index(request, keys); }

  // Makes the value row of one key NaN, in all heads.
  void poison_key(int request, int key) {
    for_each_element(request, key, [&](std::int64_t i, std::int64_t) {
      v_.set(i, std::numeric_limits<float>::quiet_NaN());
    });
  }

  // Makes the key and value rows of one key `x`, in all heads.
  void spoil_key(int request, int key, float x) {
    for_each_element(request, key, [&](std::int64_t i, std::int64_t) {
      k_.set(i, x);
      v_.set(i, x);
    });
  }

  // Request b gets the pages that request b + by was dealt; all have equally many.
  void rotate_pages(int by) {
    const auto batch = static_cast<std::int64_t>(shape_.kv_lens.size());
    const std::int64_t count = pages_of(shape_.kv_lens[0], shape_.page_size);
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t n = 0; n < count; ++n) {
        const std::int64_t page = this->page((b + by) % batch * count + n);
        block_tables_.set_index(b * block_tables_.shape().shape[1] + n, page);
        indices_.set_index(b * count + n, page);
      }
    }
  }
  // Request b gets the query rows of request b + by.
  void rotate_queries(int by) {
    const std::int64_t size = q_.shape().numel();
    const std::int64_t request = size / static_cast<std::int64_t>(shape_.kv_lens.size());
    std::vector<float> old;
    for (std::int64_t i = 0; i < size; ++i) old.push_back(q_.get(i));
    for (std::int64_t i = 0; i < size; ++i) {
      q_.set(i, old[static_cast<std::size_t>((i + by * request) % size)]);
    }
  }
  // The n-th page that was dealt.
  std::int64_t page(std::int64_t n) const { return order_[static_cast<std::size_t>(n)]; }

  // Request 0 (query, keys, values) of a case with the same request length.
  void copy_request_0(DecodeCase& from) {
    const std::int64_t query = shape_.q_len * shape_.heads_q * shape_.dim;
    for (std::int64_t i = 0; i < query; ++i) q_.set(i, from.q_.get(i));
    for (int key = 0; key < shape_.kv_lens[0]; ++key) {
      std::vector<std::int64_t> source;
      from.for_each_element(0, key, [&](std::int64_t i, std::int64_t) { source.push_back(i); });
      for_each_element(0, key, [&](std::int64_t i, std::int64_t n) {
        k_.set(i, from.k_.get(source[static_cast<std::size_t>(n)]));
        v_.set(i, from.v_.get(source[static_cast<std::size_t>(n)]));
      });
    }
  }

  Tensor& o() { return o_; }
  Tensor& lse() { return lse_; }

  AttentionOptions options{};

 private:
  static std::int64_t pages_of(int keys, int page_size) {
    return (keys + page_size - 1) / page_size;
  }

  void deal_pages() {
    const auto batch = static_cast<std::int64_t>(shape_.kv_lens.size());
    std::int64_t used = 0;
    std::int64_t widest = pages_of(std::max(shape_.reserve_keys, 1), shape_.page_size);
    for (int keys : shape_.kv_lens) {
      used += pages_of(keys, shape_.page_size);
      widest = std::max(widest, pages_of(keys, shape_.page_size));
    }
    pages_ = used + shape_.spare_pages;
    order_.resize(static_cast<std::size_t>(pages_));
    std::iota(order_.begin(), order_.end(), 0);
    for (std::size_t i = order_.size(); i > 1; --i) {
      std::swap(order_[i - 1],
                order_[static_cast<std::size_t>(random_.below(static_cast<int>(i)))]);
    }
    block_tables_ = Tensor(shape_.index, {batch, widest});
    kv_lens_ = Tensor(shape_.index, {batch});
    indptr_ = Tensor(shape_.index, {batch + 1});
    indices_ = Tensor(shape_.index, {std::max<std::int64_t>(used, 1)});
    last_ = Tensor(shape_.index, {batch});
    for (std::int64_t i = 0; i < batch * widest; ++i) block_tables_.set_index(i, -123456789);
    std::int64_t next = 0;
    for (std::int64_t b = 0; b < batch; ++b) {
      const int keys = shape_.kv_lens[static_cast<std::size_t>(b)];
      const std::int64_t count = pages_of(keys, shape_.page_size);
      kv_lens_.set_index(b, keys);
      indptr_.set_index(b, next);
      last_.set_index(b, keys > 0 ? keys - (count - 1) * shape_.page_size : 0);
      for (std::int64_t n = 0; n < count; ++n, ++next) {
        block_tables_.set_index(b * widest + n, order_[static_cast<std::size_t>(next)]);
        indices_.set_index(next, order_[static_cast<std::size_t>(next)]);
      }
    }
    indptr_.set_index(batch, next);
  }

  // Calls f(cache element, running number) for all heads and dims of a key.
  template <class F>
  void for_each_element(int request, int key, F f) const {
    const bool hnd = options.kv_layout == KvLayout::kHnd;
    const std::int64_t heads = shape_.heads_kv, slots = shape_.page_size, dim = shape_.dim;
    std::int64_t first = 0;
    for (int b = 0; b < request; ++b) {
      first += pages_of(shape_.kv_lens[static_cast<std::size_t>(b)], shape_.page_size);
    }
    const std::int64_t page = order_[static_cast<std::size_t>(first + key / slots)];
    const std::int64_t slot = key % slots;
    for (std::int64_t h = 0; h < heads; ++h) {
      const std::int64_t row = page * heads * slots + (hnd ? h * slots + slot : slot * heads + h);
      for (std::int64_t d = 0; d < dim; ++d) f(row * dim + d, h * dim + d);
    }
  }

  void fill_caches() {
    const bool hnd = options.kv_layout == KvLayout::kHnd;
    const std::int64_t heads = shape_.heads_kv, slots = shape_.page_size, dim = shape_.dim;
    const std::int64_t second = hnd ? heads : slots, third = hnd ? slots : heads;
    k_ = Tensor(shape_.dtype, {pages_, second, third, dim});
    v_ = Tensor(shape_.dtype, {pages_, second, third, dim});
    for (std::int64_t i = 0; i < pages_ * slots * heads * dim; ++i) {
      k_.set(i, std::numeric_limits<float>::quiet_NaN());
      v_.set(i, std::numeric_limits<float>::quiet_NaN());
    }
    for (int b = 0; b < static_cast<int>(shape_.kv_lens.size()); ++b) {
      for (int key = 0; key < shape_.kv_lens[static_cast<std::size_t>(b)]; ++key) {
        for_each_element(b, key, [&](std::int64_t i, std::int64_t) {
          k_.set(i, shape_.size * random_.uniform());
          v_.set(i, random_.uniform());
        });
      }
    }
  }

  DecodePagedArgs args(TensorView (Tensor::*view)()) {
    DecodePagedArgs a;
    a.q = (q_.*view)();
    a.k_cache = (k_.*view)();
    a.v_cache = (v_.*view)();
    if (shape_.dense_table) {
      a.table.block_tables = (block_tables_.*view)();
      a.table.kv_lens = (kv_lens_.*view)();
    } else {
      a.table.kv_indptr = (indptr_.*view)();
      a.table.kv_indices = (indices_.*view)();
      a.table.kv_last_page_len = (last_.*view)();
    }
    if (shape_.sinks) a.sinks = (sinks_.*view)();
    a.o = (o_.*view)();
    a.lse = (lse_.*view)();
    return a;
  }

  DecodeShape shape_;
  Random random_;
  std::int64_t pages_ = 0;
  std::vector<std::int64_t> order_;
  Tensor q_, k_, v_, o_, lse_, sinks_;
  Tensor block_tables_, kv_lens_, indptr_, indices_, last_;
};

// Largest distance of the finite values, infinite when NaN, -inf or inf stand in different places.
inline double distance(const TensorView& wanted, const std::vector<unsigned char>& got) {
  double worst = 0.0;
  for (std::int64_t i = 0; i < wanted.numel(); ++i) {
    const double a = load_float(wanted.data, wanted.dtype, i);
    const double b = load_float(got.data(), wanted.dtype, i);
    if (std::isfinite(a) && std::isfinite(b)) {
      worst = std::max(worst, std::abs(a - b));
    } else if (!(a == b) && !(std::isnan(a) && std::isnan(b))) {
      return std::numeric_limits<double>::infinity();
    }
  }
  return worst;
}

}  // namespace tilegate::test
