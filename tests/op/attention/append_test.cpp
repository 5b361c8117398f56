// SPDX-License-Identifier: Apache-2.0
// Laws of append_paged_kv: tokens land bit for bit where the page table says and nowhere else;
// attention over an appended cache equals attention over a cache that was full from the start.
#include "tests/op/calls/small_calls.h"
#include "tests/op/oracle/attention_law.h"

namespace laws {
namespace {

class AppendPagedKv : public AttentionLaw {
 protected:
  // An append that fills the caches of `full` from scratch, its tokens in random order.
  static AppendCall fill_from_scratch(const AttentionCall& full) {
    AppendCall append;
    append.options.kv_layout = full.options.kv_layout;
    append.kv_indptr = full.kv_indptr;
    append.kv_indices = full.kv_indices;
    append.kv_last_page_len = full.kv_last_page_len;
    append.block_tables = full.block_tables;
    append.kv_lens = full.kv_lens_arg;
    const auto empty = [](const Tensor& cache) {
      return cache.present() ? Tensor::packed(cache.dtype(), cache.shape()) : Tensor{};
    };
    append.k_cache = empty(full.k);
    append.v_cache = empty(full.v);
    append.kv_cache = empty(full.kv);
    Dims requests, positions;
    append.k = full.keys.clone();
    append.v = full.values.clone();
    const Dims order = Random(41).permutation(full.keys.dim(0));
    requests.resize(order.size());
    positions.resize(order.size());
    std::size_t token = 0;
    for (std::size_t b = 0; b < full.kv_lens.size(); ++b) {
      for (std::int64_t j = 0; j < full.kv_lens[b]; ++j, ++token) {
        const auto to = order[token], from = static_cast<std::int64_t>(token);
        append.k.select(0, to).copy_from(full.keys.select(0, from));
        append.v.select(0, to).copy_from(full.values.select(0, from));
        requests[static_cast<std::size_t>(to)] = static_cast<std::int64_t>(b);
        positions[static_cast<std::size_t>(to)] = j;
      }
    }
    const tilegate::DType index =
        full.kv_indptr.present() ? full.kv_indptr.dtype() : full.block_tables.dtype();
    append.batch_indices = Tensor::indices(requests, index);
    append.positions = Tensor::indices(positions, index);
    return append;
  }
};

TEST_P(AppendPagedKv, FillsEveryLayoutBitForBit) {
  for (tilegate::DType dtype : float_dtypes()) {
    for (const auto layout : {tilegate::KvLayout::kNhd, tilegate::KvLayout::kHnd}) {
      for (const Pool pool : {Pool::kSeparate, Pool::kInterleaved}) {
        for (const Table table : {Table::kCsr, Table::kDense}) {
          const AttentionCall full =
              as_paged(make_ragged({.qo_lens = {1, 1, 1}, .kv_lens = {9, 0, 6}, .dtype = dtype}),
                       {.page_size = 4, .layout = layout, .table = table, .pool = pool});
          AppendCall append = fill_from_scratch(full);
          if (!run(append)) continue;
          // Slots of nobody are poison in both, so whole caches compare.
          for (auto [got, want] : {std::pair{append.k_cache, full.k},
                                   {append.v_cache, full.v},
                                   {append.kv_cache, full.kv}}) {
            if (want.present()) expect_same_bits(got, want, "cache after append");
          }
        }
      }
    }
  }
}

TEST_P(AppendPagedKv, TokensOfManyHeads) {
  const AttentionCall full = as_paged(make_ragged({.qo_lens = {1, 1},
                                                   .kv_lens = {7, 2},
                                                   .heads_q = 72,
                                                   .heads_kv = 72,
                                                   .dim_qk = 128,
                                                   .dtype = tilegate::DType::kBFloat16}),
                                      {.page_size = 4});
  AppendCall append = fill_from_scratch(full);
  if (!run(append)) return;
  expect_same_bits(append.k_cache, full.k, "keys after append");
  expect_same_bits(append.v_cache, full.v, "values after append");
}

TEST_P(AppendPagedKv, ThenDecodeEqualsAttentionOverTheSameKeys) {
  const AttentionCall ragged = make_ragged({.qo_lens = {2, 2}, .kv_lens = {13, 7}});
  AttentionCall full = as_decode(ragged);
  AppendCall append = fill_from_scratch(full);
  if (!run(append)) return;
  AttentionCall appended = full;
  appended.reset_outputs();
  appended.k = append.k_cache;
  appended.v = append.v_cache;
  if (run(full) && run(appended)) {
    expect_same_bits(appended.o_rows(), full.o_rows(), "o after append");
    expect_oracle(appended);
  }
}

TEST_P(AppendPagedKv, ReachesPageNumbersPast16Bits) {
  const AttentionCall full = as_paged(
      make_ragged(
          {.qo_lens = {1}, .kv_lens = {3}, .heads_q = 1, .heads_kv = 1, .dim_qk = head_dim(8)}),
      {.page_size = 1, .first_pages = {131073, 1, 65536}});
  AppendCall append = fill_from_scratch(full);
  if (run(append)) expect_same_bits(append.k_cache, full.k, "k_cache of far pages");
}

TEST_P(AppendPagedKv, NegativePositionsSkip) {
  const AttentionCall full = as_paged(make_ragged({.qo_lens = {1, 1}, .kv_lens = {9, 6}}));
  AppendCall all = fill_from_scratch(full), some = fill_from_scratch(full);
  for (const std::int64_t token : {13, 14}) {  // the last, so that nothing hides a write
    some.k.select(0, token).fill(7.0);
    some.v.select(0, token).fill(7.0);
    some.positions.set(token == 13 ? -1 : -30, token);
  }
  if (!run(all) || !run(some)) return;
  for (const auto& [full_cache, cache] :
       {std::pair{all.k_cache, some.k_cache}, {all.v_cache, some.v_cache}}) {
    const std::uint64_t poison = Tensor::packed(cache.dtype(), {1}).bits(0);
    std::int64_t missing = 0;
    for (std::int64_t i = 0; i < cache.numel(); ++i) {
      if (full_cache.bits(i) == cache.bits(i)) continue;
      ++missing;
      EXPECT_EQ(cache.bits(i), poison) << "a skipped token was written";
    }
    EXPECT_EQ(missing, 2 * 2 * 64) << "two tokens of two heads must be missing";
  }
}

TEST_P(AppendPagedKv, OneRequestNeedsNoBatchIndices) {
  const AttentionCall full = as_paged(make_ragged({.qo_lens = {1}, .kv_lens = {11}}));
  AppendCall append = fill_from_scratch(full);
  append.batch_indices = {};
  if (run(append)) expect_same_bits(append.k_cache, full.k, "k_cache without batch_indices");
}

TEST_P(AppendPagedKv, NoTokens) {
  const AttentionCall full = as_paged(make_ragged({.qo_lens = {1, 1}, .kv_lens = {9, 6}}));
  AppendCall append = fill_from_scratch(full);
  append.k = append.k.slice(0, 0, 0);
  append.v = append.v.slice(0, 0, 0);
  append.batch_indices = append.batch_indices.slice(0, 0, 0);
  append.positions = append.positions.slice(0, 0, 0);
  if (run(append)) expect_untouched(append.k_cache, "k_cache");
}

TEST_P(AppendPagedKv, StridedSourcesAndCaches) {
  const AttentionCall full = as_paged(make_ragged({.qo_lens = {1, 1}, .kv_lens = {9, 6}}));
  AppendCall packed = fill_from_scratch(full), strided = fill_from_scratch(full);
  strided.k = packed.k.with_strides({400, 72, 1});
  strided.v = packed.v.with_strides({64, 2000, 1});
  strided.k_cache = Tensor::strided(full.k.dtype(), full.k.shape(), {900, 200, 70, 1});
  strided.v_cache = Tensor::strided(full.v.dtype(), full.v.shape(), {64, 1000, 5000, 1});
  if (!run(packed) || !run(strided)) return;
  expect_same_bits(strided.k_cache, packed.k_cache, "strided k_cache");
  expect_same_bits(strided.v_cache, packed.v_cache, "strided v_cache");
}

LAWS_ON_EVERY_BACKEND(AppendPagedKv);

}  // namespace
}  // namespace laws
