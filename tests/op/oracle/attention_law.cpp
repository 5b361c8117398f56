// SPDX-License-Identifier: Apache-2.0
// Comparing an attention call with the oracle, in one form or in all.
#include "tests/op/oracle/attention_law.h"

#include <algorithm>

namespace laws {

void AttentionLaw::expect_oracle(AttentionCall call, const std::string& note) {
  call.reset_outputs();
  if (!run(call)) return;
  const AttentionAnswer expected = attention_oracle(call);
  const std::string name = label(call) + " " + note;
  Tensor o = call.o;
  if (call.form == AttentionCall::Form::kDense) {
    o = o.reshaped({o.dim(0) * o.dim(1), o.dim(2), o.dim(3)},
                   {o.strides()[1], o.strides()[2], o.strides()[3]});
  }
  expect_close(o.slice(0, 0, call.rows()), expected.o,
               tolerance(Quantity::kAttention, call.o.dtype()), "o of " + name);
  expect_untouched(o.slice(0, call.rows(), o.dim(0)), "o past the offsets of " + name);
  if (!call.lse.present()) return;
  expect_close(call.lse_rows(), expected.lse, tolerance(Quantity::kLse, call.o.dtype()),
               "lse of " + name);
  expect_untouched(call.lse.slice(0, call.rows(), call.lse.dim(0)),
                   "lse past the offsets of " + name);
}

void AttentionLaw::expect_oracle_in_every_form(const AttentionCall& ragged,
                                               const std::string& note) {
  expect_oracle(ragged, note);
  expect_oracle(as_paged(ragged), note);
  expect_oracle(as_paged(ragged, {.layout = tilegate::KvLayout::kHnd, .table = Table::kDense}),
                note);
  const auto same = [](const Dims& lens) {
    return std::adjacent_find(lens.begin(), lens.end(), std::not_equal_to<>()) == lens.end();
  };
  if (!same(ragged.qo_lens) || ragged.qo_lens.empty() || ragged.qo_lens.front() < 1) return;
  if (ragged.qo_lens.front() <= 16) expect_oracle(as_decode(ragged), note);
  if (same(ragged.kv_lens)) expect_oracle(as_dense(ragged), note);
}

}  // namespace laws
