// SPDX-License-Identifier: Apache-2.0
// Offsets, lengths, page tables and slots made of any values, in memory of exactly their size: the
// checks refuse them, or every row, page and slot that a kernel would visit exists.
#include <fuzzer/FuzzedDataProvider.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "problem/lengths.h"
#include "problem/problem.h"
#include "problem/sequences.h"

namespace {

using namespace tilegate;

void require(bool holds) {
  if (!holds) __builtin_trap();
}

// Owns index tensors. Floating tensors have shapes only: checks must not read them.
class Tensors {
 public:
  explicit Tensors(FuzzedDataProvider& data) : data_(data) {}

  TensorView floats(std::initializer_list<std::int64_t> shape) {
    return TensorView::packed(nullptr, DType::kFloat32, shape);
  }

  TensorView indices(std::initializer_list<std::int64_t> shape) {
    const DType dtype = data_.ConsumeBool() ? DType::kInt64 : DType::kInt32;
    TensorView view = TensorView::packed(nullptr, dtype, shape);
    view.data = memory(view.numel() * size_of(dtype));
    for (std::int64_t i = 0; i < view.numel(); ++i) {
      const std::int64_t value = any_value();
      if (dtype == DType::kInt64) {
        static_cast<std::int64_t*>(view.data)[i] = value;
      } else {
        static_cast<std::int32_t*>(view.data)[i] = static_cast<std::int32_t>(value);
      }
    }
    return view;
  }

  TensorView bytes(std::int64_t size) {
    TensorView view = TensorView::packed(nullptr, DType::kUInt8, {size});
    view.data = memory(size);
    return view;
  }

 private:
  void* memory(std::int64_t size) {
    memory_.push_back(std::make_unique<std::byte[]>(static_cast<std::size_t>(size)));
    return memory_.back().get();
  }

  // Mostly small, so that whole tables are often right.
  std::int64_t any_value() {
    if (data_.ConsumeIntegralInRange(0, 15) != 0) return data_.ConsumeIntegralInRange(-1, 8);
    return data_.ConsumeIntegral<std::int64_t>();
  }

  FuzzedDataProvider& data_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
};

std::int64_t small(FuzzedDataProvider& data, std::int64_t most) {
  return data.ConsumeIntegralInRange<std::int64_t>(0, most);
}

PageTable page_table(FuzzedDataProvider& data, Tensors& tensors, std::int64_t batch) {
  PageTable table;
  if (data.ConsumeBool()) {
    table.block_tables = tensors.indices({batch, small(data, 4)});
    table.kv_lens = tensors.indices({batch});
    return table;
  }
  table.kv_indptr = tensors.indices({batch + 1});
  table.kv_indices = tensors.indices({small(data, 8)});
  table.kv_last_page_len = tensors.indices({batch});
  return table;
}

void visit(const AttentionProblem& p) {
  for (std::int64_t b = 0; b < p.batch; ++b) {
    const IndexRange rows = qo_range(p, b);
    require(rows.begin >= 0 && rows.begin <= rows.end && rows.end <= p.total_q);
    const std::int64_t keys = kv_len(p, b);
    require(keys >= 0 && keys <= p.max_kv_len);
    for (std::int64_t key = 0; key < keys; ++key) {
      if (p.paged()) {
        const std::int64_t page = page_id(p, b, key / p.page_size);
        require(page >= 0 && page < p.k.shape[0]);
      } else {
        const std::int64_t offset = kv_offset(p, p.k, b, key);
        require(offset >= 0 && offset < p.k.shape[1] * p.k.strides[1]);
      }
    }
  }
}

void visit(const LinearProblem& p) {
  std::vector<int> writers(static_cast<std::size_t>(p.state_out.shape[0]), 0);
  for (std::int64_t i = 0; i < p.num_seqs; ++i) {
    const std::int64_t begin = seq_begin(p, i), len = seq_len(p, i);
    require(begin >= 0 && len >= 0 && begin + len <= p.tokens);
    if (is_skipped(p, i)) continue;
    if (starts_from_state(p, i)) require(read_row(p, i) < p.state_in.shape[0]);
    const std::int64_t row = write_row(p, i);
    if (row != kNoRow) require(++writers.at(static_cast<std::size_t>(row)) == 1);
    for (std::int64_t j = 0; j < num_checkpoints(p, len); ++j) {
      require(checkpoint_row(p, i, j) < p.checkpoints.shape[0]);
    }
  }
}

struct Call {
  CallArgs args;
  CallOptions options;
  DeltaRule rule = DeltaRule::kGatedDeltaRule;
};

Call ragged_call(FuzzedDataProvider& data, Tensors& tensors) {
  const std::int64_t rows = small(data, 8), keys = small(data, 8), batch = small(data, 4);
  PrefillRaggedArgs args;
  args.q = args.o = tensors.floats({rows, 2, 8});
  args.k = args.v = tensors.floats({keys, 1, 8});
  args.qo_indptr = tensors.indices({batch + 1});
  args.kv_indptr = tensors.indices({batch + 1});
  if (data.ConsumeBool()) args.custom_mask = tensors.bytes(small(data, 16));
  return {args, AttentionOptions{}, {}};
}

Call paged_call(FuzzedDataProvider& data, Tensors& tensors) {
  const std::int64_t rows = small(data, 8), batch = small(data, 4);
  PrefillPagedArgs args;
  args.q = args.o = tensors.floats({rows, 2, 8});
  args.k_cache = args.v_cache = tensors.floats({small(data, 8), small(data, 4), 1, 8});
  args.table = page_table(data, tensors, batch);
  args.qo_indptr = tensors.indices({batch + 1});
  if (data.ConsumeBool()) args.packed_custom_mask = tensors.bytes(small(data, 4));
  return {args, AttentionOptions{}, {}};
}

Call decode_call(FuzzedDataProvider& data, Tensors& tensors) {
  const std::int64_t batch = small(data, 4);
  AttentionOptions options;
  options.q_len_per_req = 1 + small(data, 2);
  DecodePagedArgs args;
  args.q = args.o = tensors.floats({batch * options.q_len_per_req, 2, 8});
  args.k_cache = args.v_cache = tensors.floats({small(data, 8), small(data, 4), 1, 8});
  args.table = page_table(data, tensors, batch);
  return {args, options, {}};
}

Call append_call(FuzzedDataProvider& data, Tensors& tensors) {
  const std::int64_t tokens = small(data, 8), batch = small(data, 4);
  AppendPagedKvArgs args;
  args.k = args.v = tensors.floats({tokens, 1, 8});
  args.k_cache = args.v_cache = tensors.floats({small(data, 8), small(data, 4), 1, 8});
  args.table = page_table(data, tensors, batch);
  args.batch_indices = tensors.indices({tokens});
  args.positions = tensors.indices({tokens});
  return {args, AppendOptions{}, {}};
}

Call delta_call(FuzzedDataProvider& data, Tensors& tensors) {
  const std::int64_t tokens = small(data, 40), sequences = small(data, 4);
  DeltaRuleArgs args;
  args.q = args.k = args.v = args.o = tensors.floats({tokens, 1, 8});
  args.cu_seqlens = tensors.indices({sequences + 1});
  args.state_pool = tensors.floats({small(data, 6), 1, 8, 8});
  args.state_indices = tensors.indices({sequences});
  if (data.ConsumeBool()) args.output_state_indices = tensors.indices({sequences});
  if (data.ConsumeBool()) args.has_initial_state = tensors.bytes(sequences);
  DeltaRuleOptions options;
  if (data.ConsumeBool()) {
    options.checkpoint_every_n_tokens = 16;
    options.checkpoint_position =
        data.ConsumeBool() ? CheckpointPosition::kBefore : CheckpointPosition::kAfter;
    args.state_checkpoints = tensors.floats({small(data, 6), 1, 8, 8});
    args.checkpoint_cu_starts = tensors.indices({sequences + small(data, 1)});
  }
  return {args, options, DeltaRule::kGatedDeltaRule};
}

Call any_call(FuzzedDataProvider& data, Tensors& tensors) {
  switch (data.ConsumeIntegralInRange(0, 4)) {
    case 0:
      return ragged_call(data, tensors);
    case 1:
      return paged_call(data, tensors);
    case 2:
      return decode_call(data, tensors);
    case 3:
      return append_call(data, tensors);
    default:
      return delta_call(data, tensors);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  FuzzedDataProvider data(bytes, size);
  Tensors tensors(data);
  const Call call = any_call(data, tensors);
  const Result<Operation> op = normalise(call.args, call.options, call.rule);
  if (!op.ok()) return 0;
  const Status status = check_values(*op);
  if (!status.ok()) {
    require(!status.message().empty());
    return 0;
  }
  if (const auto* attention = std::get_if<AttentionProblem>(&*op)) visit(*attention);
  if (const auto* linear = std::get_if<LinearProblem>(&*op)) visit(*linear);
  return 0;
}
