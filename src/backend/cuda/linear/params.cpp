// SPDX-License-Identifier: Apache-2.0
// Views to kernel parameters, field by field. Nothing here depends on lengths or index values.
#include "backend/cuda/linear/params.h"

#include "backend/cuda/index.h"

namespace tilegate {
namespace {

using kernel::ElementKind;

constexpr std::int64_t kVectorBytes = 16;

ElementKind kind_of(DType dtype) {
  switch (dtype) {
    case DType::kBFloat16:
      return ElementKind::kBf16;
    case DType::kFloat16:
      return ElementKind::kFp16;
    default:
      return ElementKind::kFp32;
  }
}

StateForm form_of(DType dtype) {
  switch (dtype) {
    case DType::kBFloat16:
      return StateForm::kBf16;
    case DType::kFloat16:
      return StateForm::kFp16;
    default:
      return StateForm::kFp32;
  }
}

// Every row of a state [slots, heads, V, K] starts on a multiple of `bytes`.
bool rows_aligned(const TensorView& view, std::int64_t bytes) {
  const std::int64_t element = size_of(view.dtype);
  bool aligned =
      reinterpret_cast<std::uintptr_t>(view.data) % static_cast<std::uintptr_t>(bytes) == 0;
  for (int i = 0; i + 1 < view.rank; ++i) {
    aligned = aligned && (view.shape[i] <= 1 || view.strides[i] * element % bytes == 0);
  }
  return aligned;
}

// Of a tensor with `heads` heads.
kernel::HeadMap head_map(std::int64_t heads, std::int64_t heads_o) {
  const auto group = static_cast<std::uint64_t>(heads_o / heads);
  if (group == 1) return {};
  return {static_cast<std::uint32_t>(((std::uint64_t{1} << 32) + group - 1) / group)};
}

// Within 32 bits: the candidate rejects others.
std::uint32_t stride_bytes(const TensorView& view, int dim) {
  return static_cast<std::uint32_t>(view.strides[dim] * size_of(view.dtype));
}

// `view` is [batch, rows, heads, ..].
kernel::TokenRows token_rows(const TensorView& view, std::int64_t heads_o) {
  kernel::TokenRows rows;
  if (!view.present()) return rows;
  rows.data = view.data;
  rows.batch = stride_bytes(view, 0);
  rows.row = stride_bytes(view, 1);
  rows.head = stride_bytes(view, 2);
  rows.kind = kind_of(view.dtype);
  rows.heads = head_map(view.shape[2], heads_o);
  return rows;
}

kernel::StateRows state_rows(const TensorView& view) {
  kernel::StateRows rows;
  if (!view.present()) return rows;
  rows.data = view.data;
  rows.slot = view.strides[0] * size_of(view.dtype);
  rows.head = view.strides[1] * size_of(view.dtype);
  rows.row = view.strides[2] * size_of(view.dtype);
  rows.kind = kind_of(view.dtype);
  rows.aligned = rows_aligned(view, 4 * size_of(view.dtype)) ? 1 : 0;
  return rows;
}

kernel::GateForm gate_form(GateKind kind) {
  switch (kind) {
    case GateKind::kNone:
      return kernel::GateForm::kNone;
    case GateKind::kLinear:
      return kernel::GateForm::kLinear;
    case GateKind::kLog:
      return kernel::GateForm::kLog;
    case GateKind::kSoftplus:
      return kernel::GateForm::kSoftplus;
    case GateKind::kLowerBound:
      return kernel::GateForm::kLowerBound;
  }
  return kernel::GateForm::kNone;
}

kernel::EraseForm erase_form(EraseKind kind) {
  switch (kind) {
    case EraseKind::kOne:
      return kernel::EraseForm::kOne;
    case EraseKind::kScalar:
      return kernel::EraseForm::kScalar;
    case EraseKind::kVector:
      return kernel::EraseForm::kVector;
  }
  return kernel::EraseForm::kOne;
}

kernel::WriteForm write_form(WriteKind kind) {
  switch (kind) {
    case WriteKind::kErase:
      return kernel::WriteForm::kErase;
    case WriteKind::kOne:
      return kernel::WriteForm::kOne;
    case WriteKind::kVector:
      return kernel::WriteForm::kVector;
  }
  return kernel::WriteForm::kErase;
}

kernel::GateParams gate_params(const LinearProblem& p) {
  kernel::GateParams gate;
  gate.form = gate_form(p.gate);
  gate.per_channel = p.gate_per_channel ? 1 : 0;
  gate.lower_bound = p.lower_bound;
  gate.g = token_rows(p.g, p.heads_o);
  if (p.a_log.present()) {
    gate.a_log = static_cast<const float*>(p.a_log.data);
    gate.a_log_step = stride_bytes(p.a_log, 0);
    gate.a_log_heads = head_map(p.a_log.shape[0], p.heads_o);
  }
  if (p.dt_bias.present()) {
    gate.dt_bias = p.dt_bias.data;
    gate.dt_bias_step = stride_bytes(p.dt_bias, 0);
    gate.dt_bias_heads = head_map(p.dt_bias.shape[0], p.heads_o);
    gate.dt_bias_kind = kind_of(p.dt_bias.dtype);
  }
  return gate;
}

kernel::SequenceParams sequence_params(const LinearProblem& p) {
  kernel::SequenceParams out;
  out.cu_seqlens = index_array(p.cu_seqlens);
  out.read_index = index_array(p.read_index);
  out.write_index = index_array(p.write_index);
  out.num_accepted = index_array(p.num_accepted);
  out.state_slots = index_array(p.state_slots, 1);
  if (p.state_slots.present())
    out.slots_row = p.state_slots.strides[0] * size_of(p.state_slots.dtype);
  if (p.has_initial.present()) {
    out.has_initial = static_cast<const std::uint8_t*>(p.has_initial.data);
    out.has_initial_stride = p.has_initial.strides[0];
  }
  out.uniform_len = static_cast<int>(p.uniform_len >= 0 ? p.uniform_len : 0);
  out.store_final = p.store_final ? 1 : 0;
  const bool plain = !p.cu_seqlens.present() && !p.write_index.present() &&
                     !p.num_accepted.present() && !p.has_initial.present();
  out.plain = plain ? 1 : 0;
  return out;
}

// Problem: LinearProblem or CommitProblem.
template <class Problem>
kernel::RecordParams record_params(const Problem& p) {
  kernel::RecordParams out;
  if (!p.record_k.present()) return out;
  out.k = static_cast<float*>(p.record_k.data);
  out.k_seq = p.record_k.strides[0], out.k_row = p.record_k.strides[1];
  out.k_head = p.record_k.strides[2];
  out.d = static_cast<float*>(p.record_d.data);
  out.d_seq = p.record_d.strides[0], out.d_row = p.record_d.strides[1];
  out.d_head = p.record_d.strides[2];
  out.decay = static_cast<float*>(p.record_decay.data);
  out.decay_seq = p.record_decay.strides[0], out.decay_row = p.record_decay.strides[1];
  out.decay_head = p.record_decay.strides[2];
  return out;
}

kernel::CheckpointParams checkpoint_params(const LinearProblem& p) {
  kernel::CheckpointParams out;
  if (p.checkpoint_every == 0) return out;
  out.states = state_rows(p.checkpoints);
  out.starts = index_array(p.checkpoint_starts);
  out.rows = index_array(p.checkpoint_rows);
  out.every = static_cast<int>(p.checkpoint_every);
  out.before = p.checkpoint_position == CheckpointPosition::kBefore ? 1 : 0;
  return out;
}

}  // namespace

StateForm state_form(const LinearProblem& p) {
  if (p.checkpoint_every > 0) return StateForm::kTyped;
  const TensorView& in = p.state_in.present() ? p.state_in : p.state_out;
  const TensorView& out = p.state_out.present() ? p.state_out : p.state_in;
  if (!in.present()) return StateForm::kFp32;
  const bool plain =
      in.dtype == out.dtype && rows_aligned(in, kVectorBytes) && rows_aligned(out, kVectorBytes);
  return plain ? form_of(in.dtype) : StateForm::kTyped;
}

kernel::DeltaDecodeParams delta_decode_params(const LinearProblem& p) {
  kernel::DeltaDecodeParams out;
  out.q = token_rows(p.q, p.heads_o);
  out.k = token_rows(p.k, p.heads_o);
  out.v = token_rows(p.v, p.heads_o);
  out.o = token_rows(p.o, p.heads_o);
  out.beta = token_rows(p.beta, p.heads_o);
  out.w = token_rows(p.w, p.heads_o);
  out.gate = gate_params(p);
  out.sequences = sequence_params(p);
  out.state_in = state_rows(p.state_in);
  out.state_out = state_rows(p.state_out);
  out.record = record_params(p);
  out.checkpoints = checkpoint_params(p);
  out.num_seqs = static_cast<int>(p.num_seqs);
  out.heads_o = static_cast<int>(p.heads_o);
  out.heads_per_key = static_cast<int>(p.heads_o / p.heads_k);
  out.dim_v = static_cast<int>(p.dim_v);
  out.householder = static_cast<int>(p.householder);
  out.scale = p.scale;
  out.l2norm = p.l2norm ? 1 : 0;
  out.erase = erase_form(p.erase);
  out.write = write_form(p.write);
  out.beta_is_logit = p.beta_is_logit ? 1 : 0;
  return out;
}

kernel::CommitParams commit_params(const CommitProblem& p) {
  kernel::CommitParams out;
  out.state = state_rows(p.state);
  out.index = index_array(p.index);
  out.accepted = index_array(p.accepted);
  out.record = record_params(p);
  out.heads_o = static_cast<int>(p.heads_o);
  out.key_heads = head_map(p.heads_k, p.heads_o);
  out.num_seqs = static_cast<int>(p.num_seqs);
  out.dim_v = static_cast<int>(p.dim_v);
  out.dim_k = static_cast<int>(p.dim_k);
  out.householder = static_cast<int>(p.householder);
  out.per_channel = p.gate_per_channel ? 1 : 0;
  return out;
}

}  // namespace tilegate
