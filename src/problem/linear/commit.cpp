// SPDX-License-Identifier: Apache-2.0
// commit calls to CommitProblem. Order of checks: state_pool, record_k and num_householder,
// record_d, record_decay, state_indices, accepted. The rank of record_decay says whether the gate
// was one number a head or one a key channel.
#include "core/layout.h"
#include "problem/linear_normalise.h"

namespace tilegate {
namespace {

constexpr int kChannelDecayRank = 4;  // [N, T, HO, K]
constexpr int kScalarDecayRank = 3;   // [N, T, HO]

Status fill_pool(const CommitArgs& args, CommitProblem& p) {
  const Named pool{"state_pool", args.state_pool};
  TILEGATE_RETURN_IF_ERROR(require_rank(pool, 4));
  TILEGATE_RETURN_IF_ERROR(require_float(pool));
  TILEGATE_RETURN_IF_ERROR(require_inner_contiguous(pool));
  TILEGATE_RETURN_IF_ERROR(require_writable_strides(pool));
  p.heads_o = pool.view.shape[1];
  p.dim_v = pool.view.shape[2];
  p.dim_k = pool.view.shape[3];
  if (p.heads_o < 1 || p.dim_v < 1 || p.dim_k < 1) {
    return invalid("state_pool must have at least one head and head_dim 1, got {}",
                   describe_shape(pool.view));
  }
  p.state = pool.view;
  return {};
}

Status check_record(const Named& record) {
  TILEGATE_RETURN_IF_ERROR(require_dtype(record, DType::kFloat32));
  return require_inner_contiguous(record);
}

Status fill_records(const CommitArgs& args, std::int64_t householder, CommitProblem& p) {
  const Named k{"record_k", args.record_k};
  const Named d{"record_d", args.record_d};
  const Named decay{"record_decay", args.record_decay};
  TILEGATE_RETURN_IF_ERROR(require_shape(k, {-1, -1, -1, p.dim_k}));
  TILEGATE_RETURN_IF_ERROR(check_record(k));
  p.num_seqs = k.view.shape[0];
  p.heads_k = k.view.shape[2];
  if (p.heads_k < 1 || p.heads_o % p.heads_k != 0) {
    return invalid("record_k must have a number of heads that divides state_pool's {}, got {}",
                   p.heads_o, p.heads_k);
  }
  const std::int64_t rows = k.view.shape[1];
  if (householder < 1 || rows % householder != 0) {
    return invalid("num_householder must be at least 1 and divide record_k's {} rows, got {}", rows,
                   householder);
  }
  p.householder = householder;
  p.tokens = rows / householder;
  TILEGATE_RETURN_IF_ERROR(require_shape(d, {p.num_seqs, rows, p.heads_o, p.dim_v}));
  TILEGATE_RETURN_IF_ERROR(check_record(d));
  TILEGATE_RETURN_IF_ERROR(require_present(decay));
  p.gate_per_channel = decay.view.rank == kChannelDecayRank;
  if (!p.gate_per_channel) TILEGATE_RETURN_IF_ERROR(require_rank(decay, kScalarDecayRank));
  TILEGATE_RETURN_IF_ERROR(p.gate_per_channel
                               ? require_shape(decay, {p.num_seqs, p.tokens, p.heads_o, p.dim_k})
                               : require_shape(decay, {p.num_seqs, p.tokens, p.heads_o}));
  TILEGATE_RETURN_IF_ERROR(check_record(decay));
  p.record_k = k.view;
  p.record_d = d.view;
  p.record_decay = decay.view;
  return {};
}

Status fill_indices(const CommitArgs& args, CommitProblem& p) {
  const Named index{"state_indices", args.state_indices};
  const Named accepted{"accepted", args.accepted};
  for (const Named& tensor : {index, accepted}) {
    TILEGATE_RETURN_IF_ERROR(require_shape(tensor, {p.num_seqs}));
    TILEGATE_RETURN_IF_ERROR(require_index(tensor));
    TILEGATE_RETURN_IF_ERROR(require_inner_contiguous(tensor));
  }
  p.index = index.view;
  p.accepted = accepted.view;
  return {};
}

}  // namespace

Result<Operation> normalise_commit(const CommitArgs& args, const CommitOptions& options) {
  CommitProblem p;
  p.backend = options.backend;
  TILEGATE_RETURN_IF_ERROR(fill_pool(args, p));
  TILEGATE_RETURN_IF_ERROR(fill_records(args, options.num_householder, p));
  TILEGATE_RETURN_IF_ERROR(fill_indices(args, p));
  return Operation(p);
}

}  // namespace tilegate
