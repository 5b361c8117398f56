// SPDX-License-Identifier: Apache-2.0
// Law: nothing outside a request's rows, keys and pages is ever multiplied. The harness poisons all
// of that in every test; here the poison is put next to live data and must not change one bit.
#include <limits>

#include "tests/op/oracle/attention_law.h"

namespace laws {
namespace {

class AttentionPoison : public AttentionLaw {
 protected:
  // Runs `call` and `poisoned` and compares the given requests.
  void expect_same(AttentionCall call, AttentionCall poisoned, const std::vector<std::size_t>& of) {
    call.reset_outputs();
    poisoned.reset_outputs();
    if (!run(call) || !run(poisoned)) return;
    for (const std::size_t request : of) {
      expect_same_bits(poisoned.o_of(request), call.o_of(request), "o beside poison");
      expect_same_bits(poisoned.lse_of(request), call.lse_of(request), "lse beside poison");
    }
  }
};

constexpr double kBad[] = {std::numeric_limits<double>::quiet_NaN(),
                           std::numeric_limits<double>::infinity()};

TEST_P(AttentionPoison, NeighbouringRequests) {
  for (tilegate::DType dtype : float_dtypes()) {
    for (const double bad : kBad) {
      const AttentionShape shape = {.qo_lens = {6, 6, 6}, .kv_lens = {11, 70, 9}, .dtype = dtype};
      const AttentionCall call = make_ragged(shape);
      AttentionCall poisoned = make_ragged(shape);
      for (Tensor* t : {&poisoned.k, &poisoned.v, &poisoned.keys, &poisoned.values}) {
        t->slice(0, 11, 81).fill(bad);
      }
      poisoned.q.slice(0, 6, 12).fill(bad);
      expect_same(call, poisoned, {0, 2});
      expect_same(as_paged(call), as_paged(poisoned), {0, 2});
      expect_same(as_decode(call), as_decode(poisoned), {0, 2});
    }
  }
}

// What the cache holds past kv_len and in pages of nobody: NaN, infinity or zero give the same
// bits.
TEST_P(AttentionPoison, UnusedPagesAndSlots) {
  for (tilegate::DType dtype : float_dtypes()) {
    for (const std::int64_t page_size : {1, 5, 16}) {
      const AttentionCall ragged =
          make_ragged({.qo_lens = {3, 3}, .kv_lens = {13, 42}, .dtype = dtype});
      const PagedForm form = {.page_size = page_size, .spare_pages = 5};
      const AttentionCall clean = as_paged(ragged, form);
      // A NaN of the caches is where no request looks; in the clean call it becomes zero.
      for (const Tensor* cache : {&clean.k, &clean.v}) {
        Tensor t = *cache;
        for (std::int64_t i = 0; i < t.numel(); ++i) {
          if (t.flat(i) != t.flat(i)) t.set_flat(i, 0.0);
        }
      }
      expect_same(clean, as_paged(ragged, form), {0, 1});
      AttentionCall decode = as_decode(ragged, form);
      decode.k = clean.k;
      decode.v = clean.v;
      expect_same(decode, as_decode(ragged, form), {0, 1});
    }
  }
}

TEST_P(AttentionPoison, TableEntriesPastARequestsPages) {
  const AttentionCall ragged = make_ragged({.qo_lens = {2, 2, 2}, .kv_lens = {9, 1, 0}});
  for (const auto index : {tilegate::DType::kInt32, tilegate::DType::kInt64}) {
    const PagedForm form = {.table = Table::kDense};
    for (AttentionCall call : {as_paged(ragged, form), as_decode(ragged, form)}) {
      call.block_tables = call.block_tables.as(index);
      call.kv_lens_arg = call.kv_lens_arg.as(index);
      call.qo_indptr = call.qo_indptr.as(index);
      AttentionCall negative = call;
      negative.block_tables = call.block_tables.clone();
      for (std::int64_t i = 0; i < negative.block_tables.numel(); ++i) {
        if (negative.block_tables.flat(i) > 1e9) negative.block_tables.set_flat(i, -7.0);
      }
      expect_same(call, negative, {0, 1, 2});
      expect_oracle(negative);
    }
  }
}

TEST_P(AttentionPoison, RowsPastTheLastOffset) {
  AttentionCall ragged = make_ragged({.qo_lens = {3, 3}, .kv_lens = {3, 8}, .spare_rows = 70});
  expect_oracle_in_every_form(ragged, "70 spare rows");
}

// A request's own masked keys may hold any finite value: they have probability zero.
TEST_P(AttentionPoison, MaskedKeysOfAnySize) {
  const AttentionShape shape = {.qo_lens = {4}, .kv_lens = {20}};
  AttentionCall call = make_ragged(shape);
  AttentionCall loud = make_ragged(shape);
  call.options.window_left = loud.options.window_left = 5;
  for (Tensor* t : {&loud.k, &loud.v, &loud.keys, &loud.values}) t->slice(0, 0, 10).fill(1e4);
  expect_same(call, loud, {0});
  expect_same(as_paged(call), as_paged(loud), {0});
  expect_same(as_decode(call), as_decode(loud), {0});
}

// A NaN in a query row makes that row NaN, and no other.
TEST_P(AttentionPoison, AQueryRowKeepsItsNaN) {
  for (tilegate::DType dtype : float_dtypes()) {
    const AttentionShape shape = {.qo_lens = {9, 9}, .kv_lens = {30, 12}, .dtype = dtype};
    AttentionCall ragged = make_ragged(shape);
    ragged.q.select(0, 4).select(0, 1).poison();
    expect_oracle_in_every_form(ragged, "one NaN row");
  }
}

LAWS_ON_EVERY_BACKEND(AttentionPoison);

}  // namespace
}  // namespace laws
