// SPDX-License-Identifier: Apache-2.0
// States, checkpoints and speculation of a delta-rule call. A call has either initial_state and
// output_state, one row a sequence, or a pool whose rows are named by indices; what is not asked to
// be written has no state_out in the problem, so no backend can write it.
#include "problem/linear_states.h"

namespace tilegate {
namespace {

constexpr std::int64_t kCheckpointGranule = 16;  // tokens

Status check_record(const Named& record, std::initializer_list<std::int64_t> shape) {
  TILEGATE_RETURN_IF_ERROR(require_shape(record, shape));
  TILEGATE_RETURN_IF_ERROR(require_dtype(record, DType::kFloat32));
  TILEGATE_RETURN_IF_ERROR(require_inner_contiguous(record));
  return require_writable_strides(record);
}

Status require_false(std::string_view option, bool value, std::string_view reason) {
  if (!value) return {};
  return invalid("{} must be false {}, got true", option, reason);
}

// A pool that is addressed without indices needs a row for every sequence.
Status check_pool_rows(const Named& pool, const Named& indices, std::int64_t num_seqs) {
  if (indices.view.present() || pool.view.shape[0] >= num_seqs) return {};
  return invalid("{} must have at least {} rows without {}, got {}", pool.name, num_seqs,
                 indices.name, pool.view.shape[0]);
}

Status fill_pool(const DeltaRuleArgs& args, const DeltaRuleOptions& options, LinearProblem& p) {
  const Named pool{"state_pool", args.state_pool};
  const Named output_pool{"output_state_pool", args.output_state_pool};
  const Named reads{"state_indices", args.state_indices};
  const Named writes{"output_state_indices", args.output_state_indices};
  TILEGATE_RETURN_IF_ERROR(
      require_absent({"initial_state", args.initial_state}, "beside state_pool"));
  TILEGATE_RETURN_IF_ERROR(
      require_absent({"output_state", args.output_state}, "beside state_pool"));
  TILEGATE_RETURN_IF_ERROR(check_state(pool, -1, p));
  TILEGATE_RETURN_IF_ERROR(require_writable_strides(pool));
  if (options.disable_state_update) {
    constexpr std::string_view kWhy = "with disable_state_update";
    TILEGATE_RETURN_IF_ERROR(require_absent(output_pool, kWhy));
    TILEGATE_RETURN_IF_ERROR(require_absent(writes, kWhy));
  }
  if (output_pool.view.present()) {
    TILEGATE_RETURN_IF_ERROR(check_state(output_pool, -1, p));
    TILEGATE_RETURN_IF_ERROR(require_writable_strides(output_pool));
  }
  if (reads.view.present()) TILEGATE_RETURN_IF_ERROR(check_index(reads, p.num_seqs));
  if (writes.view.present()) TILEGATE_RETURN_IF_ERROR(check_index(writes, p.num_seqs));
  TILEGATE_RETURN_IF_ERROR(check_pool_rows(pool, reads, p.num_seqs));
  if (output_pool.view.present()) {
    const Named& named = reads.view.present() ? reads : writes;
    TILEGATE_RETURN_IF_ERROR(check_pool_rows(output_pool, named, p.num_seqs));
  }
  p.state_in = args.state_pool;
  p.read_index = args.state_indices;
  p.write_index = args.output_state_indices;
  p.store_final = !options.disable_state_update;
  if (p.store_final) p.state_out = output_pool.view.present() ? output_pool.view : pool.view;
  return {};
}

Status fill_own_states(const DeltaRuleArgs& args, const DeltaRuleOptions& options,
                       LinearProblem& p) {
  constexpr std::string_view kWhy = "without state_pool";
  const Named initial{"initial_state", args.initial_state};
  const Named output{"output_state", args.output_state};
  TILEGATE_RETURN_IF_ERROR(require_absent({"output_state_pool", args.output_state_pool}, kWhy));
  TILEGATE_RETURN_IF_ERROR(require_absent({"state_indices", args.state_indices}, kWhy));
  TILEGATE_RETURN_IF_ERROR(
      require_absent({"output_state_indices", args.output_state_indices}, kWhy));
  if (initial.view.present()) TILEGATE_RETURN_IF_ERROR(check_state(initial, p.num_seqs, p));
  if (options.output_final_state) {
    if (!output.view.present()) {
      return invalid("output_state must be given with output_final_state, got none");
    }
  }
  if (output.view.present()) {
    TILEGATE_RETURN_IF_ERROR(check_state(output, p.num_seqs, p));
    TILEGATE_RETURN_IF_ERROR(require_writable_strides(output));
  }
  p.state_in = args.initial_state;
  p.store_final = options.output_final_state;
  if (p.store_final) p.state_out = args.output_state;
  return {};
}

}  // namespace

Status require_absent(const Named& tensor, std::string_view reason) {
  if (!tensor.view.present()) return {};
  return invalid("{} must be absent {}, got {}", tensor.name, reason, describe_tensor(tensor.view));
}

Status check_state(const Named& state, std::int64_t rows, const LinearProblem& p) {
  TILEGATE_RETURN_IF_ERROR(require_shape(state, {rows, p.heads_o, p.dim_v, p.dim_k}));
  TILEGATE_RETURN_IF_ERROR(require_float(state));
  return require_inner_contiguous(state);
}

Status check_index(const Named& index, std::int64_t entries) {
  TILEGATE_RETURN_IF_ERROR(require_shape(index, {entries}));
  TILEGATE_RETURN_IF_ERROR(require_index(index));
  return require_inner_contiguous(index);
}

Status fill_states(const DeltaRuleArgs& args, const DeltaRuleOptions& options, LinearProblem& p) {
  if (options.disable_state_update) {
    TILEGATE_RETURN_IF_ERROR(require_false("output_final_state", options.output_final_state,
                                           "with disable_state_update"));
  }
  TILEGATE_RETURN_IF_ERROR(args.state_pool.present() ? fill_pool(args, options, p)
                                                     : fill_own_states(args, options, p));
  if (!args.has_initial_state.present()) return {};
  const Named has_initial{"has_initial_state", args.has_initial_state};
  if (!p.state_in.present()) {
    return require_absent(has_initial, "without initial_state or state_pool");
  }
  TILEGATE_RETURN_IF_ERROR(require_shape(has_initial, {p.num_seqs}));
  TILEGATE_RETURN_IF_ERROR(require_mask(has_initial));
  TILEGATE_RETURN_IF_ERROR(require_inner_contiguous(has_initial));
  p.has_initial = args.has_initial_state;
  return {};
}

Status fill_checkpoints(const DeltaRuleArgs& args, const DeltaRuleOptions& options,
                        LinearProblem& p) {
  const Named checkpoints{"state_checkpoints", args.state_checkpoints};
  const Named starts{"checkpoint_cu_starts", args.checkpoint_cu_starts};
  const Named rows{"checkpoint_state_indices", args.checkpoint_state_indices};
  const std::int64_t every = options.checkpoint_every_n_tokens;
  if (every < 0 || every % kCheckpointGranule != 0) {
    return invalid("checkpoint_every_n_tokens must be a multiple of {} and at least 0, got {}",
                   kCheckpointGranule, every);
  }
  if (every == 0) {
    constexpr std::string_view kWhy = "with checkpoint_every_n_tokens = 0";
    TILEGATE_RETURN_IF_ERROR(require_absent(checkpoints, kWhy));
    TILEGATE_RETURN_IF_ERROR(require_absent(starts, kWhy));
    return require_absent(rows, kWhy);
  }
  TILEGATE_RETURN_IF_ERROR(check_state(checkpoints, -1, p));
  TILEGATE_RETURN_IF_ERROR(require_writable_strides(checkpoints));
  TILEGATE_RETURN_IF_ERROR(require_rank(starts, 1));
  const std::int64_t entries = starts.view.shape[0];
  if (entries != p.num_seqs && entries != p.num_seqs + 1) {
    return invalid("checkpoint_cu_starts must have {} or {} entries, got {}", p.num_seqs,
                   p.num_seqs + 1, entries);
  }
  TILEGATE_RETURN_IF_ERROR(check_index(starts, entries));
  if (rows.view.present()) TILEGATE_RETURN_IF_ERROR(check_index(rows, -1));
  p.checkpoint_every = every;
  p.checkpoint_position = options.checkpoint_position;
  p.checkpoints = args.state_checkpoints;
  p.checkpoint_starts = args.checkpoint_cu_starts;
  p.checkpoint_rows = args.checkpoint_state_indices;
  return {};
}

Status fill_speculation(const DeltaRuleArgs& args, std::int64_t columns, LinearProblem& p) {
  const Named slots{"state_slots", args.state_slots};
  const Named accepted{"num_accepted_tokens", args.num_accepted_tokens};
  if (!slots.view.present()) {
    TILEGATE_RETURN_IF_ERROR(require_absent(accepted, "without state_slots"));
  } else {
    if (!args.state_pool.present()) return require_absent(slots, "without state_pool");
    if (!p.store_final) return require_absent(slots, "with disable_state_update");
    TILEGATE_RETURN_IF_ERROR(require_shape(slots, {p.num_seqs, columns}));
    TILEGATE_RETURN_IF_ERROR(require_index(slots));
    TILEGATE_RETURN_IF_ERROR(require_inner_contiguous(slots));
    p.state_slots = slots.view;
    p.store_final = args.output_state_indices.present();
  }
  if (accepted.view.present()) {
    TILEGATE_RETURN_IF_ERROR(require_shape(accepted, {p.num_seqs}));
    TILEGATE_RETURN_IF_ERROR(require_dtype(accepted, DType::kInt32));
    TILEGATE_RETURN_IF_ERROR(require_inner_contiguous(accepted));
    p.num_accepted = accepted.view;
  }
  const Named k{"record_k", args.record_k};
  const Named d{"record_d", args.record_d};
  const Named decay{"record_decay", args.record_decay};
  if (!k.view.present() && !d.view.present() && !decay.view.present()) return {};
  const std::int64_t rows = columns * p.householder;
  TILEGATE_RETURN_IF_ERROR(check_record(k, {p.num_seqs, rows, p.heads_k, p.dim_k}));
  TILEGATE_RETURN_IF_ERROR(check_record(d, {p.num_seqs, rows, p.heads_o, p.dim_v}));
  TILEGATE_RETURN_IF_ERROR(p.gate_per_channel
                               ? check_record(decay, {p.num_seqs, columns, p.heads_o, p.dim_k})
                               : check_record(decay, {p.num_seqs, columns, p.heads_o}));
  p.record_k = k.view;
  p.record_d = d.view;
  p.record_decay = decay.view;
  return {};
}

}  // namespace tilegate
