// SPDX-License-Identifier: Apache-2.0
// The choice of a graph's form, in the order: lengths, maxima, bounds, placement, strides, layout.
#include "backend/cudnn/graph/form.h"

#include <algorithm>

namespace tilegate::cudnn {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::int64_t kMaxCopyBytes = std::int64_t{1} << 30;

Strides strides_of(const TensorView& view, std::int64_t rows_each) {
  if (!view.present()) return {};
  Strides s{view.strides[0], view.strides[1], view.strides[2]};
  // Ragged views are [1, total rows, ..]: equal requests lie rows_each rows apart.
  if (rows_each >= 0) s.batch = rows_each * s.row;
  return s;
}

std::int64_t equal_rows(const AttentionProblem& p) {
  if (p.uniform_qo_len >= 0) return p.uniform_qo_len;
  // Offsets never decrease and no request exceeds the declared maximum.
  const bool all = p.max_qo_len_declared && p.total_q == p.batch * p.max_qo_len;
  return all ? p.max_qo_len : -1;
}

std::int64_t equal_keys(const AttentionProblem& p) {
  if (p.paged()) return -1;
  if (p.uniform_kv_len >= 0) return p.uniform_kv_len;
  const bool all = p.max_kv_len_declared && p.k.shape[1] == p.batch * p.max_kv_len;
  return all ? p.max_kv_len : -1;
}

void set_bounds(const AttentionProblem& p, GraphSpec& spec) {
  spec.right_keys = p.causal ? 0 : p.window_right;
  if (spec.right_keys >= spec.rows - 1) spec.right_keys = -1;
  if (p.window_left < 0 || p.window_left >= spec.keys - 1) return;
  spec.left_keys = p.window_left + 1;
  // With one row a right bound changes nothing, and some versions need one beside a left bound.
  if (spec.rows == 1) spec.right_keys = 0;
}

// Rows of the copy of paged keys; 0: none is made.
std::int64_t rows_to_copy(const AttentionProblem& p, const GraphSpec& spec,
                          const DeviceFacts& facts) {
  if (!p.paged() || spec.rows == 1 || facts.compute_capability < 90) return 0;
  // With sinks the engines that want the copy do not build in every version.
  if (spec.has_sinks) return 0;
  const std::int64_t rows =
      p.kv_indices.present() ? p.kv_indices.shape[0] * p.page_size : p.batch * spec.keys;
  const std::int64_t row_bytes = p.heads_kv * (p.dim_qk + p.dim_v) * size_of(p.dtype);
  return rows <= kMaxCopyBytes / row_bytes ? rows : 0;
}

class Cutter {
 public:
  std::size_t take(std::int64_t count, std::size_t element_bytes) {
    const std::size_t begin = bytes_;
    bytes_ += static_cast<std::size_t>(count) * element_bytes;
    bytes_ = (bytes_ + kAlignment - 1) / kAlignment * kAlignment;
    return begin;
  }

 private:
  std::size_t bytes_ = 0;
};

WorkspaceLayout make_layout(const GraphForm& form) {
  const GraphSpec& spec = form.spec;
  const bool padded = spec.lengths == Lengths::kPadded;
  const std::int64_t lengths = padded ? spec.batch : 0;
  const std::int64_t q_offsets = spec.q_placement == Placement::kRagged ? spec.batch + 1 : 0;
  const std::int64_t kv_offsets = spec.kv_placement == Placement::kRagged ? spec.batch + 1 : 0;
  Cutter cut;
  WorkspaceLayout layout;
  layout.q_lens = cut.take(lengths, sizeof(std::int32_t));
  layout.kv_lens = cut.take(lengths, sizeof(std::int32_t));
  layout.q_offsets = cut.take(q_offsets, sizeof(std::int64_t));
  layout.o_offsets = cut.take(q_offsets, sizeof(std::int64_t));
  layout.lse_offsets = cut.take(spec.has_lse ? q_offsets : 0, sizeof(std::int64_t));
  layout.k_offsets = cut.take(kv_offsets, sizeof(std::int64_t));
  layout.v_offsets = cut.take(kv_offsets, sizeof(std::int64_t));
  layout.page_table = cut.take(spec.batch * spec.table_width(), sizeof(std::int32_t));
  const auto element = static_cast<std::size_t>(size_of(spec.dtype));
  layout.k_copy = cut.take(form.copied_rows * spec.heads_kv * spec.dim_qk, element);
  layout.v_copy = cut.take(form.copied_rows * spec.heads_kv * spec.dim_v, element);
  layout.sinks = cut.take(form.copies_sinks ? spec.heads_q : 0, sizeof(float));
  layout.engine = cut.take(0, 1);
  return layout;
}

}  // namespace

GraphForm make_form(const AttentionProblem& p, const DeviceFacts& facts) {
  GraphForm form;
  form.rows_each = equal_rows(p);
  form.keys_each = equal_keys(p);
  GraphSpec& spec = form.spec;
  spec.dtype = p.dtype;
  spec.batch = p.batch;
  spec.heads_q = p.heads_q, spec.heads_kv = p.heads_kv;
  spec.dim_qk = p.dim_qk, spec.dim_v = p.dim_v;
  spec.rows = form.rows_each >= 0 ? form.rows_each : std::min(p.max_qo_len, p.total_q);
  spec.keys = form.keys_each >= 0 ? form.keys_each : p.max_kv_len;
  if (!p.paged()) spec.keys = std::min(spec.keys, p.k.shape[1]);
  if (p.k.shape[0] == 0) spec.keys = 0;  // a pool without pages
  spec.has_lse = p.lse.present();
  spec.has_sinks = p.sinks.present();
  spec.scale = p.scale;
  form.copies_sinks = p.sinks.present() && p.heads_q > 1 && p.sinks.strides[0] != 1;
  set_bounds(p, spec);

  form.copied_rows = rows_to_copy(p, spec, facts);
  if (p.paged() && form.copied_rows == 0) {
    spec.page_size = p.page_size;
    spec.pages = p.k.shape[0];
  }
  if (spec.page_size == 0 && form.keys_each < 0) spec.kv_placement = Placement::kRagged;
  // cuDNN takes 64-bit offsets of keys only beside 64-bit offsets of rows.
  if (form.rows_each < 0 || spec.kv_placement == Placement::kRagged) {
    spec.q_placement = Placement::kRagged;
  }
  // A graph of one row refuses sinks and loses lse rows of ragged requests: declare two.
  if (spec.rows == 1 && (spec.has_sinks || spec.q_placement == Placement::kRagged)) {
    spec.rows = 2;
    spec.q_placement = Placement::kRagged;
  }
  const bool dense = form.rows_each >= 0 && form.keys_each >= 0;
  const bool bounded = spec.left_keys >= 0 || spec.right_keys >= 0;
  // Without lengths a band may not have more rows than keys.
  const bool pads =
      !dense || spec.q_placement == Placement::kRagged || (bounded && spec.rows > spec.keys);
  if (pads) spec.lengths = Lengths::kPadded;
  // Equal: both diagonals are the same line, and top-left is the case that engines know best.
  if (!pads && spec.rows == spec.keys) spec.diagonal = Diagonal::kTopLeft;

  const std::int64_t rows_apart = p.uniform_qo_len >= 0 ? -1 : form.rows_each;
  spec.q = form.q = strides_of(p.q, rows_apart);
  spec.o = form.o = strides_of(p.o, rows_apart);
  spec.lse = form.lse = strides_of(p.lse, rows_apart);
  const bool own_batch = p.paged() || p.uniform_kv_len >= 0;
  spec.k = strides_of(p.k, own_batch ? -1 : form.keys_each);
  spec.v = strides_of(p.v, own_batch ? -1 : form.keys_each);
  if (form.copied_rows > 0) {
    spec.k = {.batch = 0, .row = p.heads_kv * p.dim_qk, .head = p.dim_qk};
    spec.v = {.batch = 0, .row = p.heads_kv * p.dim_v, .head = p.dim_v};
  }
  // Not read beside offsets, and so the same for any number of rows in all.
  if (spec.q_placement == Placement::kRagged) {
    spec.q.batch = spec.rows * spec.q.row;
    spec.o.batch = spec.rows * spec.o.row;
    spec.lse.batch = spec.rows * spec.lse.row;
  }
  if (spec.kv_placement == Placement::kRagged) {
    spec.k.batch = spec.keys * spec.k.row;
    spec.v.batch = spec.keys * spec.v.row;
  }
  form.layout = make_layout(form);
  return form;
}

}  // namespace tilegate::cudnn
