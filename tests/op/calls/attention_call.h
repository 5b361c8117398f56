// SPDX-License-Identifier: Apache-2.0
// AttentionCall: a batch of requests with its logical keys and values, callable as ragged prefill,
// paged prefill or decode, so that one law covers all three. Everything outside the requests (rows
// past the offsets, unused pages and slots, table entries past a request's pages) is poison.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/op/calls/call.h"
#include "tests/op/harness/served.h"
#include "tests/op/tensor/random.h"

namespace laws {

struct AttentionShape {
  Dims qo_lens = {5, 17};
  Dims kv_lens = {5, 17};
  std::int64_t heads_q = 4;
  std::int64_t heads_kv = 2;
  std::int64_t dim_qk = 64;
  std::int64_t dim_v = 0;  // 0: dim_qk
  tilegate::DType dtype = plain_dtype();
  tilegate::DType index = tilegate::DType::kInt32;
  std::int64_t spare_rows = 3;  // poisoned rows past the last offset of q, k, v, o and lse
  std::uint64_t seed = 1;
};

enum class Table { kCsr, kDense };
enum class Pool { kSeparate, kInterleaved };

struct PagedForm {
  std::int64_t page_size = 4;
  tilegate::KvLayout layout = tilegate::KvLayout::kNhd;
  Table table = Table::kCsr;
  Pool pool = Pool::kSeparate;
  std::int64_t spare_pages = 2;  // poisoned pages that no request owns
  Dims first_pages = {};         // dealt before all others; the pool reaches to the last of them
  std::uint64_t seed = 7;
};

class AttentionCall : public Call {
 public:
  enum class Form { kRagged, kPaged, kDecode, kDense };
  Form form = Form::kRagged;

  // The problem itself, which the oracle reads.
  Dims qo_lens, kv_lens;
  Tensor keys, values;                // [sum kv_lens, heads_kv, dim]
  std::vector<std::uint8_t> visible;  // custom mask, flat over (request, i, j); empty: none

  // The arguments.
  Tensor q, k, v, kv;  // k and v are the caches of a paged form; kv the interleaved one
  Tensor qo_indptr, kv_indptr, kv_indices, kv_last_page_len, block_tables, kv_lens_arg;
  Tensor sinks, custom_mask, packed_custom_mask;
  Tensor o, lse;
  tilegate::AttentionOptions options;

  std::int64_t rows() const;  // of q within the offsets
  Tensor o_rows() const { return o.slice(0, 0, rows()); }
  Tensor lse_rows() const { return lse.slice(0, 0, rows()); }
  // Rows of one request.
  Tensor o_of(std::size_t request) const;
  Tensor lse_of(std::size_t request) const;
  // New poisoned outputs of the same shape.
  void reset_outputs();
  // A custom mask, given as one byte an entry or as packed bits.
  void mask_bytes(std::vector<std::uint8_t> mask);
  void mask_bits(std::vector<std::uint8_t> mask);

  std::vector<Argument> arguments() override;
  tilegate::CallArgs args() const override;
  tilegate::Result<tilegate::Problem> describe() const override;
  void set_backend(tilegate::Backend backend) override { options.backend = backend; }

 private:
  tilegate::PageTable page_table() const;
};

AttentionCall make_ragged(const AttentionShape& shape);
// The same requests read through pages; `call` is a ragged call.
AttentionCall as_paged(const AttentionCall& call, const PagedForm& form = {});
// As decode: all requests have the same number of rows, which must be 1..16.
AttentionCall as_decode(const AttentionCall& call, const PagedForm& form = {});
// As a dense batch [B, S, H, D]: all requests have equal lengths.
AttentionCall as_dense(const AttentionCall& call);
// Request `request` alone.
AttentionCall alone(const AttentionCall& call, std::size_t request);

// The same requests in another order: request i of the result is order[i] of the ragged `call`.
AttentionCall reordered(const AttentionCall& call, const Dims& order);

std::vector<std::uint8_t> random_mask(const AttentionCall& call, Random& random);
std::vector<std::int64_t> offsets_of(const Dims& lens);
std::string label(const AttentionCall& call);

}  // namespace laws
