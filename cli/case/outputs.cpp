// SPDX-License-Identifier: Apache-2.0
// Output shapes follow the inputs: o has q's tokens, v's width; states are [N, HO, V, K].
#include "cli/case/outputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>

#include "io/json.h"

namespace tilegate::cli {
namespace {

// A dimension counted from the end; 0 where the tensor has none, which the library then rejects.
std::int64_t dim_from_end(const TensorView& view, int back) {
  return view.rank >= back ? view.shape[view.rank - back] : 0;
}

std::vector<std::int64_t> shape_of(const TensorView& view) {
  return {view.shape.begin(), view.shape.begin() + view.rank};
}

bool is_index_vector(const TensorView& view) {
  return view.rank == 1 && (view.dtype == DType::kInt32 || view.dtype == DType::kInt64);
}

// q's shape with other trailing dimensions.
std::vector<std::int64_t> like_q(const TensorView& q, std::int64_t heads, std::int64_t dim) {
  std::vector<std::int64_t> shape = shape_of(q);
  if (shape.size() >= 2) {
    shape[shape.size() - 2] = heads;
    shape[shape.size() - 1] = dim;
  }
  return shape;
}

std::vector<OutputSpec> attention_outputs(const Case& c) {
  const TensorView q = c.input("q");
  const TensorView v = c.input(c.op->kind == OpKind::kPrefillRagged ? "v" : "v_cache");
  const std::int64_t heads = dim_from_end(q, 2);
  std::vector<OutputSpec> outputs = {
      {"o", q.dtype, like_q(q, heads, dim_from_end(v, 1)), Fill::kZero}};
  if (c.params.flag("return_lse").value_or(false)) {
    outputs.push_back({"lse", DType::kFloat32, {q.shape[0], heads}, Fill::kMinusInfinity});
  }
  return outputs;
}

std::vector<OutputSpec> merge_outputs(const Case& c) {
  const TensorView v = c.input("v");
  const std::vector<std::int64_t> rows = {v.shape[0], v.shape[2]};
  return {{"o", v.dtype, {v.shape[0], v.shape[2], v.shape[3]}, Fill::kZero},
          {"lse", DType::kFloat32, rows, Fill::kMinusInfinity}};
}

std::int64_t checkpoint_every(const Case& c) {
  return c.params.integer("checkpoint_every_n_tokens").value_or(0);
}

std::int64_t checkpoints_of(const Case& c, std::int64_t i) {
  const std::int64_t every = checkpoint_every(c);
  if (every <= 0) return 0;
  const bool before = c.params.text("checkpoint_position").value_or("after") == "before";
  const std::int64_t len = sequence_length(c, i);
  return len / every + (before && len % every != 0 ? 1 : 0);
}

// One past the last row that a checkpoint goes to.
Result<std::int64_t> checkpoint_rows(const Case& c) {
  const TensorView starts = c.input("checkpoint_cu_starts");
  const std::int64_t sequences = num_sequences(c);
  if (!is_index_vector(starts) || starts.shape[0] < sequences) return std::int64_t{0};
  std::int64_t rows = 0, longest = 0;
  for (std::int64_t i = 0; i < starts.shape[0]; ++i) {
    const std::int64_t count = i < sequences ? checkpoints_of(c, i) : 0;
    const std::int64_t start = index_at(starts, i);
    longest = std::max(longest, count);
    if (start <= std::numeric_limits<std::int64_t>::max() - count) {
      rows = std::max(rows, start + count);
    }
  }
  const std::int64_t most = sequences * longest;
  if (rows > most) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("checkpoint_cu_starts must keep rows within sequences * checkpoints "
                              "of the longest = {}, got {}",
                              most, rows));
  }
  return rows;
}

Result<std::vector<OutputSpec>> delta_outputs(const Case& c) {
  const TensorView q = c.input("q"), v = c.input("v");
  const TensorView pool = c.input("state_pool"), initial = c.input("initial_state");
  const std::int64_t heads = std::max(dim_from_end(q, 2), dim_from_end(v, 2));
  const std::int64_t dim_k = dim_from_end(q, 1), dim_v = dim_from_end(v, 1);
  const DType state = pool.present()      ? pool.dtype
                      : initial.present() ? initial.dtype
                                          : DType::kFloat32;
  std::vector<OutputSpec> outputs = {{"o", q.dtype, like_q(q, heads, dim_v), Fill::kZero}};
  if (pool.present()) {
    outputs.push_back({"state_pool", pool.dtype, shape_of(pool), Fill::kInput});
  } else if (c.params.flag("output_final_state").value_or(false)) {
    outputs.push_back({"final_state", state, {num_sequences(c), heads, dim_v, dim_k}, Fill::kZero});
  }
  if (checkpoint_every(c) > 0) {
    Result<std::int64_t> rows = checkpoint_rows(c);
    if (!rows.ok()) return rows.status();
    outputs.push_back({"state_checkpoints", state, {*rows, heads, dim_v, dim_k}, Fill::kZero});
  }
  return outputs;
}

// Without leading dimensions of 1.
std::span<const std::int64_t> stripped(const std::vector<std::int64_t>& shape) {
  std::span<const std::int64_t> dims = shape;
  while (!dims.empty() && dims.front() == 1) dims = dims.subspan(1);
  return dims;
}

}  // namespace

TensorView OutputSpec::view() const {
  TensorView view;
  view.dtype = dtype;
  view.rank = static_cast<int>(shape.size());
  std::copy(shape.begin(), shape.end(), view.shape.begin());
  std::int64_t stride = 1;
  for (int i = view.rank - 1; i >= 0; --i) {
    view.strides[i] = stride;
    const bool grows = view.shape[i] > 0 && stride <= (std::int64_t{1} << 60) / view.shape[i];
    stride *= grows ? view.shape[i] : 1;
  }
  return view;
}

std::int64_t index_at(const TensorView& view, std::int64_t i) {
  if (view.dtype == DType::kInt64) return static_cast<const std::int64_t*>(view.data)[i];
  return static_cast<const std::int32_t*>(view.data)[i];
}

std::int64_t num_sequences(const Case& c) {
  if (c.op->rule == DeltaRule::kGatedDeltaRuleDecode) return c.input("q").shape[0];
  const TensorView offsets = c.input("cu_seqlens");
  return is_index_vector(offsets) ? std::max<std::int64_t>(offsets.shape[0] - 1, 0) : 0;
}

std::int64_t sequence_length(const Case& c, std::int64_t i) {
  const TensorView q = c.input("q");
  if (q.rank < 3) return 0;
  const std::int64_t tokens = q.shape[q.rank - 3];
  if (c.op->rule == DeltaRule::kGatedDeltaRuleDecode) return tokens;
  const TensorView offsets = c.input("cu_seqlens");
  const std::int64_t begin = index_at(offsets, i), end = index_at(offsets, i + 1);
  return begin >= 0 && begin <= end && end <= tokens ? end - begin : 0;
}

Status complete_inputs(Case& c) {
  if (checkpoint_every(c) <= 0 || c.inputs.contains("checkpoint_cu_starts")) return Status();
  const std::int64_t sequences = num_sequences(c);
  const std::int64_t shape[] = {sequences + 1};
  Result<io::HostTensor> starts = io::HostTensor::allocate(DType::kInt64, shape);
  if (!starts.ok()) return starts.status();
  std::int64_t* entries = starts->as<std::int64_t>();
  for (std::int64_t i = 0; i < sequences; ++i) entries[i + 1] = entries[i] + checkpoints_of(c, i);
  c.inputs.emplace("checkpoint_cu_starts", std::move(*starts));
  return Status();
}

Result<std::vector<OutputSpec>> outputs_of(const Case& c) {
  if (c.op->kind == OpKind::kMergeStates) return merge_outputs(c);
  if (c.op->kind == OpKind::kDeltaRule) return delta_outputs(c);
  return attention_outputs(c);
}

Status check_expected(const Case& c, const std::vector<OutputSpec>& outputs) {
  for (const auto& [name, tensor] : c.expected) {
    const auto spec = std::find_if(outputs.begin(), outputs.end(),
                                   [&, &wanted = name](const auto& o) { return o.name == wanted; });
    if (spec == outputs.end()) {
      std::string names;
      for (const OutputSpec& o : outputs) names += (names.empty() ? "" : ", ") + o.name;
      return Status(StatusCode::kIo, fmt::format("expected.* must be an output of this call ({}), "
                                                 "got {}",
                                                 names, io::quote_name("expected." + name)));
    }
    if (tensor.view().dtype != DType::kFloat32) {
      return Status(StatusCode::kIo, fmt::format("expected.{} must be float32, got {}", name,
                                                 to_string(tensor.view().dtype)));
    }
    const std::vector<std::int64_t> shape = shape_of(tensor.view());
    if (!std::ranges::equal(stripped(shape), stripped(spec->shape))) {
      return Status(StatusCode::kIo,
                    fmt::format("expected.{} must have the output's shape [{}], got [{}]", name,
                                fmt::join(spec->shape, ", "), fmt::join(shape, ", ")));
    }
  }
  return Status();
}

}  // namespace tilegate::cli
