// SPDX-License-Identifier: Apache-2.0
// Building attention calls. Pages are dealt out in a random order, so that no test passes by
// reading a request's pages contiguously.
#include "tests/op/calls/attention_call.h"

#include <algorithm>
#include <numeric>

namespace laws {

using tilegate::DType;
using tilegate::KvLayout;

namespace {

constexpr std::int64_t kWildPage = 2000000000;  // far outside every pool

std::int64_t sum(const Dims& lens) {
  return std::accumulate(lens.begin(), lens.end(), std::int64_t{0});
}

Tensor with_spare_rows(const Tensor& rows, std::int64_t spare) {
  Dims shape = rows.shape();
  shape[0] += spare;
  Tensor padded = Tensor::packed(rows.dtype(), shape);
  padded.slice(0, 0, rows.dim(0)).copy_from(rows);
  return padded;
}

// The caches, seen as [pages, page_size, heads, dim] whatever the layout.
struct Caches {
  Tensor k, v;
};

Caches allocate_caches(AttentionCall& call, const PagedForm& form, std::int64_t pages) {
  const std::int64_t heads = call.keys.dim(1), dk = call.keys.dim(2), dv = call.values.dim(2);
  const DType dtype = call.keys.dtype();
  const bool hnd = form.layout == KvLayout::kHnd;
  auto shape = [&](std::int64_t dim) {
    return hnd ? Dims{pages, heads, form.page_size, dim} : Dims{pages, form.page_size, heads, dim};
  };
  auto logical = [&](const Tensor& cache) { return hnd ? cache.permuted({0, 2, 1, 3}) : cache; };
  if (form.pool == Pool::kInterleaved) {
    Dims both = shape(dk);
    both.insert(both.begin() + 1, 2);
    call.kv = Tensor::packed(dtype, both);
    return {logical(call.kv.select(1, 0)), logical(call.kv.select(1, 1))};
  }
  call.k = Tensor::packed(dtype, shape(dk));
  call.v = Tensor::packed(dtype, shape(dv));
  return {logical(call.k), logical(call.v)};
}

void fill_tables(AttentionCall& call, const PagedForm& form, const std::vector<Dims>& pages) {
  const auto batch = static_cast<std::int64_t>(pages.size());
  const DType index = call.qo_indptr.dtype();
  if (form.table == Table::kDense) {
    std::int64_t widest = 1;
    for (const Dims& row : pages) widest = std::max(widest, static_cast<std::int64_t>(row.size()));
    call.block_tables = Tensor::packed(index, {batch, widest + 2});
    call.block_tables.fill(kWildPage);
    for (std::int64_t b = 0; b < batch; ++b) {
      const Dims& row = pages[static_cast<std::size_t>(b)];
      for (std::size_t j = 0; j < row.size(); ++j) {
        call.block_tables.set(static_cast<double>(row[j]), b, j);
      }
    }
    call.kv_lens_arg = Tensor::indices(call.kv_lens, index);
    return;
  }
  Dims counts, flat, last;
  for (std::size_t b = 0; b < pages.size(); ++b) {
    counts.push_back(static_cast<std::int64_t>(pages[b].size()));
    flat.insert(flat.end(), pages[b].begin(), pages[b].end());
    const std::int64_t full = (counts.back() - 1) * form.page_size;
    last.push_back(counts.back() == 0 ? 0 : call.kv_lens[b] - full);
  }
  flat.push_back(kWildPage);  // past the last offset: never read
  call.kv_indptr = Tensor::indices(offsets_of(counts), index);
  call.kv_indices = Tensor::indices(flat, index);
  call.kv_last_page_len = Tensor::indices(last, index);
}

}  // namespace

std::vector<std::int64_t> offsets_of(const Dims& lens) {
  Dims offsets(1, 0);
  for (std::int64_t len : lens) offsets.push_back(offsets.back() + len);
  return offsets;
}

std::int64_t AttentionCall::rows() const { return sum(qo_lens); }

Tensor AttentionCall::o_of(std::size_t request) const {
  const Dims offsets = offsets_of(qo_lens);
  return o.slice(0, offsets[request], offsets[request + 1]);
}

Tensor AttentionCall::lse_of(std::size_t request) const {
  const Dims offsets = offsets_of(qo_lens);
  return lse.slice(0, offsets[request], offsets[request + 1]);
}

void AttentionCall::reset_outputs() {
  o = Tensor::strided(o.dtype(), o.shape(), o.strides());
  if (lse.present()) lse = Tensor::packed(DType::kFloat32, lse.shape());
}

void AttentionCall::mask_bytes(std::vector<std::uint8_t> mask) {
  visible = std::move(mask);
  packed_custom_mask = {};
  custom_mask = Tensor::bytes(visible);
}

void AttentionCall::mask_bits(std::vector<std::uint8_t> mask) {
  visible = std::move(mask);
  custom_mask = {};
  std::vector<std::uint8_t> packed;
  std::size_t n = 0;
  for (std::size_t b = 0; b < qo_lens.size(); ++b) {
    const auto count = static_cast<std::size_t>(qo_lens[b] * kv_lens[b]);
    const std::size_t start = packed.size();
    packed.resize(start + (count + 7) / 8, 0);
    for (std::size_t i = 0; i < count; ++i, ++n) {
      if (visible[n] != 0) packed[start + i / 8] |= static_cast<std::uint8_t>(1u << (i % 8));
    }
  }
  packed_custom_mask = Tensor::bytes(packed);
}

std::vector<Argument> AttentionCall::arguments() {
  return {{"q", &q, Role::kIn},
          {"k", &k, Role::kIn},
          {"v", &v, Role::kIn},
          {"kv_cache", &kv, Role::kIn},
          {"qo_indptr", &qo_indptr, Role::kIn},
          {"kv_indptr", &kv_indptr, Role::kIn},
          {"kv_indices", &kv_indices, Role::kIn},
          {"kv_last_page_len", &kv_last_page_len, Role::kIn},
          {"block_tables", &block_tables, Role::kIn},
          {"kv_lens", &kv_lens_arg, Role::kIn},
          {"sinks", &sinks, Role::kIn},
          {"custom_mask", &custom_mask, Role::kIn},
          {"packed_custom_mask", &packed_custom_mask, Role::kIn},
          {"o", &o, Role::kOut},
          {"lse", &lse, Role::kOut}};
}

tilegate::PageTable AttentionCall::page_table() const {
  tilegate::PageTable table;
  table.kv_indptr = kv_indptr.view();
  table.kv_indices = kv_indices.view();
  table.kv_last_page_len = kv_last_page_len.view();
  table.block_tables = block_tables.view();
  table.kv_lens = kv_lens_arg.view();
  return table;
}

tilegate::CallArgs AttentionCall::args() const {
  auto common = [&](auto args) {
    args.q = q.view();
    args.sinks = sinks.view();
    args.custom_mask = custom_mask.view();
    args.packed_custom_mask = packed_custom_mask.view();
    args.o = o.view();
    args.lse = lse.view();
    return args;
  };
  if (form == Form::kRagged || form == Form::kDense) {
    auto args = common(tilegate::PrefillRaggedArgs{});
    args.k = k.view();
    args.v = v.view();
    args.qo_indptr = qo_indptr.view();
    args.kv_indptr = kv_indptr.view();
    return args;
  }
  auto paged = [&](auto args) {
    args.k_cache = k.view();
    args.v_cache = v.view();
    args.kv_cache = kv.view();
    args.table = page_table();
    return args;
  };
  if (form == Form::kDecode) return paged(common(tilegate::DecodePagedArgs{}));
  auto args = paged(common(tilegate::PrefillPagedArgs{}));
  args.qo_indptr = qo_indptr.view();
  return args;
}

tilegate::Result<tilegate::Problem> AttentionCall::describe() const {
  const tilegate::CallArgs call = args();
  if (const auto* ragged = std::get_if<tilegate::PrefillRaggedArgs>(&call)) {
    return tilegate::describe(*ragged, options);
  }
  if (const auto* paged = std::get_if<tilegate::PrefillPagedArgs>(&call)) {
    return tilegate::describe(*paged, options);
  }
  return tilegate::describe(std::get<tilegate::DecodePagedArgs>(call), options);
}

AttentionCall make_ragged(const AttentionShape& shape) {
  Random random(shape.seed);
  AttentionCall call;
  call.qo_lens = shape.qo_lens;
  call.kv_lens = shape.kv_lens;
  const std::int64_t tq = sum(shape.qo_lens), tk = sum(shape.kv_lens);
  const std::int64_t dv = shape.dim_v > 0 ? shape.dim_v : shape.dim_qk;
  call.q = with_spare_rows(
      random.normals(Tensor::packed(shape.dtype, {tq, shape.heads_q, shape.dim_qk})),
      shape.spare_rows);
  call.keys = random.normals(Tensor::packed(shape.dtype, {tk, shape.heads_kv, shape.dim_qk}));
  call.values = random.normals(Tensor::packed(shape.dtype, {tk, shape.heads_kv, dv}));
  call.k = with_spare_rows(call.keys, shape.spare_rows);
  call.v = with_spare_rows(call.values, shape.spare_rows);
  call.qo_indptr = Tensor::indices(offsets_of(shape.qo_lens), shape.index);
  call.kv_indptr = Tensor::indices(offsets_of(shape.kv_lens), shape.index);
  call.o = Tensor::packed(shape.dtype, {tq + shape.spare_rows, shape.heads_q, dv});
  call.lse = Tensor::packed(DType::kFloat32, {tq + shape.spare_rows, shape.heads_q});
  return call;
}

AttentionCall as_paged(const AttentionCall& ragged, const PagedForm& form) {
  AttentionCall call = ragged;
  call.form = AttentionCall::Form::kPaged;
  call.options.kv_layout = form.layout;
  call.k = call.v = call.kv_indptr = {};
  std::int64_t needed = 0;
  for (std::int64_t len : call.kv_lens) needed += (len + form.page_size - 1) / form.page_size;
  std::int64_t total = std::max<std::int64_t>(needed + form.spare_pages, 1);
  for (const std::int64_t page : form.first_pages) total = std::max(total, page + 1);
  const Caches caches = allocate_caches(call, form, total);
  Dims order = form.first_pages;
  for (const std::int64_t page : Random(form.seed).permutation(total)) {
    if (std::count(form.first_pages.begin(), form.first_pages.end(), page) == 0) {
      order.push_back(page);
    }
  }
  std::vector<Dims> pages;
  std::size_t next = 0;
  std::int64_t row = 0;
  for (std::int64_t len : call.kv_lens) {
    pages.emplace_back();
    for (std::int64_t j = 0; j < len; ++j, ++row) {
      if (j % form.page_size == 0) pages.back().push_back(order[next++]);
      const std::int64_t page = pages.back().back(), slot = j % form.page_size;
      caches.k.select(0, page).select(0, slot).copy_from(call.keys.select(0, row));
      caches.v.select(0, page).select(0, slot).copy_from(call.values.select(0, row));
    }
  }
  fill_tables(call, form, pages);
  call.reset_outputs();
  return call;
}

AttentionCall as_decode(const AttentionCall& ragged, const PagedForm& form) {
  AttentionCall call = as_paged(ragged, form);
  call.form = AttentionCall::Form::kDecode;
  call.qo_indptr = {};
  call.options.q_len_per_req = call.qo_lens.empty() ? 1 : call.qo_lens.front();
  call.q = call.q.slice(0, 0, call.rows());
  call.o = call.o.slice(0, 0, call.rows());
  if (call.lse.present()) call.lse = call.lse.slice(0, 0, call.rows());
  return call;
}

AttentionCall as_dense(const AttentionCall& ragged) {
  AttentionCall call = ragged;
  call.form = AttentionCall::Form::kDense;
  const auto batch = static_cast<std::int64_t>(call.qo_lens.size());
  auto split = [&](const Tensor& rows, std::int64_t length) {
    const Dims& s = rows.shape();
    const Dims shape = {batch, length, s[1], s[2]};
    return rows.reshaped(shape, packed_strides(shape));
  };
  call.q = split(call.q, call.qo_lens.front());
  call.k = split(call.keys, call.kv_lens.front());
  call.v = split(call.values, call.kv_lens.front());
  call.qo_indptr = call.kv_indptr = {};
  call.reset_outputs();
  call.o = split(call.o, call.qo_lens.front());
  if (call.lse.present()) call.lse = call.lse.slice(0, 0, call.rows());
  return call;
}

AttentionCall alone(const AttentionCall& batch, std::size_t request) {
  AttentionCall call = batch;
  const Dims q_at = offsets_of(batch.qo_lens), k_at = offsets_of(batch.kv_lens);
  call.qo_lens = {batch.qo_lens[request]};
  call.kv_lens = {batch.kv_lens[request]};
  call.q = batch.q.slice(0, q_at[request], q_at[request + 1]);
  call.keys = batch.keys.slice(0, k_at[request], k_at[request + 1]);
  call.values = batch.values.slice(0, k_at[request], k_at[request + 1]);
  call.k = call.keys;
  call.v = call.values;
  call.qo_indptr = Tensor::indices({0, call.qo_lens[0]}, batch.qo_indptr.dtype());
  call.kv_indptr = Tensor::indices({0, call.kv_lens[0]}, batch.qo_indptr.dtype());
  call.o = Tensor::packed(batch.o.dtype(), {call.rows(), batch.o.dim(1), batch.o.dim(2)});
  if (batch.lse.present()) call.lse = Tensor::packed(DType::kFloat32, {call.rows(), call.q.dim(1)});
  return call;
}

AttentionCall reordered(const AttentionCall& call, const Dims& order) {
  AttentionCall result = call;
  result.q = Tensor::packed(call.q.dtype(), call.q.shape());
  result.keys = Tensor::packed(call.keys.dtype(), call.keys.shape());
  result.values = Tensor::packed(call.values.dtype(), call.values.shape());
  std::int64_t row = 0, key = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto from = static_cast<std::size_t>(order[i]);
    const AttentionCall request = alone(call, from);
    result.qo_lens[i] = request.rows();
    result.kv_lens[i] = request.kv_lens.front();
    result.q.slice(0, row, row + result.qo_lens[i]).copy_from(request.q);
    result.keys.slice(0, key, key + result.kv_lens[i]).copy_from(request.keys);
    result.values.slice(0, key, key + result.kv_lens[i]).copy_from(request.values);
    row += result.qo_lens[i];
    key += result.kv_lens[i];
  }
  result.k = result.keys;
  result.v = result.values;
  result.qo_indptr = Tensor::indices(offsets_of(result.qo_lens), call.qo_indptr.dtype());
  result.kv_indptr = Tensor::indices(offsets_of(result.kv_lens), call.qo_indptr.dtype());
  result.reset_outputs();
  return result;
}

std::vector<std::uint8_t> random_mask(const AttentionCall& call, Random& random) {
  std::vector<std::uint8_t> mask;
  for (std::size_t b = 0; b < call.qo_lens.size(); ++b) {
    for (std::int64_t i = 0; i < call.qo_lens[b] * call.kv_lens[b]; ++i) {
      mask.push_back(random.below(3) > 0 ? 1 : 0);
    }
  }
  return mask;
}

std::string label(const AttentionCall& call) {
  constexpr const char* kNames[] = {"ragged", "paged", "decode", "dense"};
  return std::string(kNames[static_cast<int>(call.form)]) + " " +
         std::string(tilegate::to_string(call.o.dtype())) + " qo " + to_string(call.qo_lens) +
         " kv " + to_string(call.kv_lens) + " keys " + to_string(call.keys.shape());
}

}  // namespace laws
