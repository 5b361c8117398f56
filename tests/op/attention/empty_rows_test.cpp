// SPDX-License-Identifier: Apache-2.0
// Law: a row that sees no key gives o = 0 and lse = -inf (with a sink: lse = the sink). Never NaN,
// never the mean of v. Requests without rows or without keys may stand anywhere.
#include <cmath>
#include <limits>
#include <numbers>

#include "tests/op/oracle/attention_law.h"

namespace laws {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class EmptyRows : public AttentionLaw {
 protected:
  // Rows [0, rows) of a request are empty.
  void expect_empty(const AttentionCall& call, std::size_t request, std::int64_t rows) {
    const std::string name = label(call);
    expect_all(call.o_of(request).slice(0, 0, rows), 0.0, "o of an empty row of " + name);
    const Tensor lse = call.lse_of(request).slice(0, 0, rows);
    if (!call.sinks.present()) return expect_all(lse, -kInfinity, "lse of an empty row of " + name);
    const bool log2 = call.options.lse_base == tilegate::LseBase::kLog2;
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t h = 0; h < call.sinks.numel(); ++h) {
        const double sink = call.sinks.at(h) * (log2 ? std::numbers::log2e : 1.0);
        EXPECT_NEAR(lse.at(r, h), sink, 1e-6 * std::fabs(sink)) << name;
      }
    }
  }
};

TEST_P(EmptyRows, MoreRowsThanKeysUnderCausal) {
  for (tilegate::DType dtype : float_dtypes()) {
    AttentionCall ragged = make_ragged({.qo_lens = {9, 9}, .kv_lens = {4, 12}, .dtype = dtype});
    ragged.options.causal = true;
    for (AttentionCall call : {ragged, as_paged(ragged), as_decode(ragged)}) {
      expect_oracle(call);
      if (run(call)) expect_empty(call, 0, 5);
    }
  }
}

TEST_P(EmptyRows, RequestsWithoutKeys) {
  for (const bool causal : {false, true}) {
    AttentionCall ragged = make_ragged({.qo_lens = {3, 3, 3, 3}, .kv_lens = {0, 7, 0, 0}});
    ragged.options.causal = causal;
    const PagedForm dense = {.table = Table::kDense};
    for (AttentionCall call : {ragged, as_paged(ragged), as_paged(ragged, dense), as_decode(ragged),
                               as_decode(ragged, dense)}) {
      expect_oracle(call);
      if (!run(call)) continue;
      for (const std::size_t request : {0, 2, 3}) expect_empty(call, request, 3);
    }
  }
}

TEST_P(EmptyRows, RequestsWithoutRows) {
  AttentionCall call = make_ragged({.qo_lens = {0, 4, 0, 2, 0}, .kv_lens = {3, 4, 0, 2, 5}});
  expect_oracle_in_every_form(call);
}

TEST_P(EmptyRows, NoKeysAtAll) {
  AttentionCall ragged = make_ragged({.qo_lens = {2, 2}, .kv_lens = {0, 0}});
  for (AttentionCall call : {ragged, as_paged(ragged), as_decode(ragged)}) {
    if (!run(call)) continue;
    expect_empty(call, 0, 2);
    expect_empty(call, 1, 2);
  }
}

TEST_P(EmptyRows, NoRowsAndNoRequests) {
  AttentionCall no_rows = make_ragged({.qo_lens = {0, 0}, .kv_lens = {5, 2}});
  AttentionCall no_requests = make_ragged({.qo_lens = {}, .kv_lens = {}});
  for (AttentionCall call :
       {no_rows, as_paged(no_rows), no_requests, as_paged(no_requests), as_decode(no_requests)}) {
    if (run(call)) expect_untouched(call.o, "o of " + label(call));
  }
}

TEST_P(EmptyRows, MaskedByACustomMask) {
  AttentionCall ragged = make_ragged({.qo_lens = {5, 5}, .kv_lens = {8, 6}});
  std::vector<std::uint8_t> mask(5 * 8 + 5 * 6, 1);
  for (int i = 0; i < 2 * 8; ++i) mask[static_cast<std::size_t>(i)] = 0;
  ragged.mask_bytes(mask);
  for (AttentionCall call : {ragged, as_paged(ragged), as_decode(ragged)}) {
    expect_oracle(call);
    if (run(call)) expect_empty(call, 0, 2);
  }
}

TEST_P(EmptyRows, WindowBeforeTheFirstKey) {
  AttentionCall ragged = make_ragged({.qo_lens = {12}, .kv_lens = {5}});
  ragged.options.window_right = 2;  // without causal: row i sees j <= i - 7 + 2
  for (AttentionCall call : {ragged, as_paged(ragged)}) {
    expect_oracle(call);
    if (run(call)) expect_empty(call, 0, 5);
  }
}

TEST_P(EmptyRows, SinkKeepsItsLogit) {
  for (const auto base : {tilegate::LseBase::kLog2, tilegate::LseBase::kNatural}) {
    AttentionCall ragged = make_ragged({.qo_lens = {6, 6}, .kv_lens = {2, 0}});
    ragged.options.causal = true;
    ragged.options.lse_base = base;
    ragged.sinks = Random(5).normals(Tensor::packed(tilegate::DType::kFloat32, {4}));
    for (AttentionCall call : {ragged, as_paged(ragged), as_decode(ragged)}) {
      expect_oracle(call);
      if (!run(call)) continue;
      expect_empty(call, 0, 4);
      expect_empty(call, 1, 6);
    }
  }
}

LAWS_ON_EVERY_BACKEND(EmptyRows);

}  // namespace
}  // namespace laws
