// SPDX-License-Identifier: Apache-2.0
// Laws of stable bits: under batch_invariant a request alone equals itself in any batch, whatever
// capacity, maxima or splits; prefix rows do not depend on later tokens; large batches launch.
#include "tests/op/oracle/attention_law.h"

namespace laws {
namespace {

class AttentionBatch : public AttentionLaw {
 protected:
  // Request `request` of `batch` alone, in the same form, has the same bits.
  void expect_alone_equals(AttentionCall batch, AttentionCall single, std::size_t request) {
    batch.options.batch_invariant = single.options.batch_invariant = true;
    batch.reset_outputs();
    single.reset_outputs();
    if (!run(batch)) return;
    EXPECT_TRUE(pinned()) << explain();
    if (!run(single)) return;
    EXPECT_TRUE(pinned()) << explain();
    expect_same_bits(single.o_rows(), batch.o_of(request), "o alone, " + label(batch));
    expect_same_bits(single.lse_rows(), batch.lse_of(request), "lse alone, " + label(batch));
  }
};

TEST_P(AttentionBatch, ARequestAloneEqualsItselfInABatch) {
  for (tilegate::DType dtype : float_dtypes()) {
    AttentionCall batch = make_ragged({.qo_lens = {3, 3, 3, 3},
                                       .kv_lens = {900, 3, 64, 257},
                                       .heads_q = 2,
                                       .heads_kv = 1,
                                       .dim_qk = head_dim(32),
                                       .dtype = dtype});
    batch.options.causal = true;
    for (std::size_t request = 0; request < 4; ++request) {
      const AttentionCall single = alone(batch, request);
      expect_alone_equals(batch, single, request);
      expect_alone_equals(as_paged(batch), as_paged(single, {.seed = 99}), request);
      expect_alone_equals(as_decode(batch), as_decode(single, {.spare_pages = 40}), request);
    }
  }
}

TEST_P(AttentionBatch, LongRequestsAlone) {
  AttentionCall batch = make_ragged({.qo_lens = {2, 2},
                                     .kv_lens = {40, 4200},
                                     .heads_q = 2,
                                     .heads_kv = 1,
                                     .dim_qk = head_dim(16)});
  const AttentionCall single = alone(batch, 1);
  expect_oracle_in_every_form(batch, "long");
  expect_alone_equals(batch, single, 1);
  expect_alone_equals(as_paged(batch, {.page_size = 16}), as_paged(single, {.page_size = 16}), 1);
  expect_alone_equals(as_decode(batch, {.page_size = 16}), as_decode(single, {.page_size = 16}), 1);
}

TEST_P(AttentionBatch, UnequalRequestsAlone) {
  AttentionCall batch = make_ragged({.qo_lens = {70, 1, 0, 33},
                                     .kv_lens = {70, 300, 4, 0},
                                     .heads_q = 2,
                                     .heads_kv = 1,
                                     .dim_qk = head_dim(32)});
  for (const std::size_t request : {0, 1, 3}) {
    const AttentionCall single = alone(batch, request);
    expect_alone_equals(batch, single, request);
    expect_alone_equals(as_paged(batch), as_paged(single), request);
  }
}

// To the tolerance, and bit for bit where the plan's bits do not depend on the batch.
TEST_P(AttentionBatch, RequestsInAnotherOrder) {
  for (tilegate::DType dtype : float_dtypes()) {
    AttentionCall ragged =
        make_ragged({.qo_lens = {3, 3, 3, 3}, .kv_lens = {200, 3, 64, 0}, .dtype = dtype});
    ragged.options.causal = true;
    const Dims order = {2, 3, 0, 1};
    const AttentionCall other = reordered(ragged, order);
    const auto expect_same_answers = [&](AttentionCall a, AttentionCall b) {
      a.reset_outputs();
      if (!run(a) || !run(b)) return;
      for (std::size_t i = 0; i < order.size(); ++i) {
        const auto from = static_cast<std::size_t>(order[i]);
        expect_close(b.o_of(i), a.o_of(from), tolerance(Quantity::kAttention, dtype), "o moved");
        expect_close(b.lse_of(i), a.lse_of(from), tolerance(Quantity::kLse, dtype), "lse moved");
        if (pinned()) expect_same_bits(b.o_of(i), a.o_of(from), "o moved, " + label(b));
      }
    };
    expect_same_answers(ragged, other);
    expect_same_answers(as_paged(ragged), as_paged(other));
    expect_same_answers(as_decode(ragged), as_decode(other));
  }
}

TEST_P(AttentionBatch, DeclaredMaximaDoNotChangeBits) {
  AttentionCall batch = make_ragged({.qo_lens = {2, 2}, .kv_lens = {300, 40}});
  for (const AttentionCall& form : {batch, as_paged(batch), as_decode(batch)}) {
    AttentionCall small = form, large = form;
    small.options.batch_invariant = large.options.batch_invariant = true;
    small.options.max_kv_len = 300;
    large.options.max_kv_len = 100000;
    large.options.max_qo_len = form.form == AttentionCall::Form::kDecode ? 0 : 4000;
    small.reset_outputs();
    large.reset_outputs();
    if (!run(small) || !run(large)) continue;
    expect_same_bits(large.o_rows(), small.o_rows(), "o under larger maxima");
    expect_same_bits(large.lse_rows(), small.lse_rows(), "lse under larger maxima");
  }
}

// Causal self-attention: rows before P keep their bits when every later token changes.
TEST_P(AttentionBatch, PrefixBits) {
  const std::int64_t length = 150;
  for (const std::int64_t prefix : {1, 63, 64, 65, 128}) {
    const AttentionShape shape = {.qo_lens = {length},
                                  .kv_lens = {length},
                                  .heads_q = 2,
                                  .heads_kv = 1,
                                  .dim_qk = head_dim(32),
                                  .spare_rows = 0};
    AttentionCall call = make_ragged(shape);
    AttentionCall other = make_ragged(shape);
    Random random(77);
    for (Tensor* t : {&other.q, &other.k, &other.v, &other.keys, &other.values}) {
      random.normals(t->slice(0, prefix, length), 3.0);
    }
    for (const auto& form : {AttentionCall::Form::kRagged, AttentionCall::Form::kPaged}) {
      const bool paged = form == AttentionCall::Form::kPaged;
      AttentionCall a = paged ? as_paged(call) : call, b = paged ? as_paged(other) : other;
      for (AttentionCall* c : {&a, &b}) {
        c->reset_outputs();
        c->options.causal = true;
        c->options.batch_invariant = true;
      }
      if (!run(a) || !run(b)) continue;
      expect_same_bits(b.o.slice(0, 0, prefix), a.o.slice(0, 0, prefix), "prefix of o");
      expect_same_bits(b.lse.slice(0, 0, prefix), a.lse.slice(0, 0, prefix), "prefix of lse");
    }
  }
}

TEST_P(AttentionBatch, SplitsAgreeToTolerance) {
  AttentionCall one = make_ragged({.qo_lens = {1, 1},
                                   .kv_lens = {700, 30},
                                   .heads_q = 2,
                                   .heads_kv = 1,
                                   .dim_qk = head_dim(32)});
  one.sinks = Random(3).normals(Tensor::packed(tilegate::DType::kFloat32, {2}));
  one.options.disable_split_kv = true;
  for (AttentionCall base : {as_paged(one), as_decode(one)}) {
    base.reset_outputs();
    if (!run(base)) continue;
    for (const std::int64_t split : {32, 100, 512}) {
      AttentionCall call = base;
      call.reset_outputs();
      call.options.disable_split_kv = false;
      call.options.fixed_split_size = split;
      if (!run(call)) continue;
      const auto dtype = call.o.dtype();
      expect_close(call.o_rows(), base.o_rows(), tolerance(Quantity::kAttention, dtype), "o split");
      expect_close(call.lse_rows(), base.lse_rows(), tolerance(Quantity::kLse, dtype), "lse split");
    }
  }
}

TEST_P(AttentionBatch, TwoThousandOneTokenRequests) {
  const Dims ones(2048, 1);
  AttentionCall call = make_ragged(
      {.qo_lens = ones, .kv_lens = ones, .heads_q = 2, .heads_kv = 1, .dim_qk = head_dim(8)});
  expect_oracle(call);
  expect_oracle(as_paged(call, {.page_size = 1}));
  expect_oracle(as_decode(call, {.page_size = 1}));
}

TEST_P(AttentionBatch, HundredThousandPairs) {
  const Dims ones(3200, 1);
  AttentionCall call = make_ragged({.qo_lens = ones,
                                    .kv_lens = ones,
                                    .heads_q = 32,
                                    .heads_kv = 1,
                                    .dim_qk = head_dim(8),
                                    .dtype = tilegate::DType::kBFloat16});
  expect_oracle(call);
  expect_oracle(as_decode(call, {.page_size = 1}));
}

LAWS_ON_EVERY_BACKEND(AttentionBatch);

}  // namespace
}  // namespace laws
