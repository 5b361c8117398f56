// SPDX-License-Identifier: Apache-2.0
// The delta rule by definition: one (sequence, state head) at a time, token after token, the state
// [V, K] and all arithmetic in fp64.
//
//   S <- S * decay;  d = write * v - S (erase * k);  S <- S + d k^T;  o = scale * S q
//
// GDP repeats the two middle steps for its rows of a token. What must not be read (skipped
// sequences, fresh slots, forgotten states) is left out by selection, so NaN there is harmless.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "backend/reference/candidates.h"
#include "core/element.h"
#include "problem/sequences.h"

namespace tilegate {
namespace {

constexpr double kNormEpsilon = 1e-6;
constexpr double kSoftplusLinear = 20.0;  // softplus(x) = x above

// One sequence seen by one state head, with its state and the vectors of the current token.
struct Walk {
  Walk(const LinearProblem& problem, std::int64_t sequence, std::int64_t state_head)
      : p(problem),
        seq(sequence),
        head(state_head),
        state(static_cast<std::size_t>(p.dim_v * p.dim_k)),
        q(static_cast<std::size_t>(p.dim_k)),
        k(q.size()),
        erased_k(q.size()),
        d(static_cast<std::size_t>(p.dim_v)) {}

  // This head's head of a tensor that has `heads` heads.
  std::int64_t head_of(std::int64_t heads) const { return head * heads / p.heads_o; }

  const LinearProblem& p;
  std::int64_t seq;
  std::int64_t head;
  std::vector<double> state;     // [V, K]
  std::vector<double> q;         // [K]
  std::vector<double> k;         // [K], as used
  std::vector<double> erased_k;  // [K], erase * k
  std::vector<double> d;         // [V]
};

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double softplus(double x) { return x > kSoftplusLinear ? x : std::log1p(std::exp(x)); }

double load(const TensorView& view, std::int64_t offset) {
  return load_float(view.data, view.dtype, offset);
}

// Row `row` of q or k of head `h`, normalised when the call asks for it.
void load_key(const Walk& w, const TensorView& view, std::int64_t row, std::vector<double>& out) {
  const std::int64_t h = w.head_of(view.shape[2]);
  const std::int64_t offset = offset_of(view, seq_batch(w.p, w.seq), row, h);
  double squares = 0.0;
  for (std::size_t c = 0; c < out.size(); ++c) {
    out[c] = load(view, offset + static_cast<std::int64_t>(c));
    squares += out[c] * out[c];
  }
  if (!w.p.l2norm) return;
  const double inverse = 1.0 / std::sqrt(squares + kNormEpsilon);
  for (double& x : out) x *= inverse;
}

// ln alpha of a raw gate value x of key channel c.
double activate(const Walk& w, double x, std::int64_t c) {
  const LinearProblem& p = w.p;
  const double a = std::exp(load(p.a_log, w.head_of(p.a_log.shape[0])));
  if (p.dt_bias.present()) {
    const std::int64_t row = w.head_of(p.dt_bias.shape[0]) * p.dt_bias.strides[0];
    x += load(p.dt_bias, p.gate_per_channel ? row + c : row);
  }
  if (p.gate == GateKind::kLowerBound) return p.lower_bound * sigmoid(a * x);
  return -a * softplus(x);
}

struct Decay {
  double alpha = 1.0;
  double log = 0.0;  // ln alpha
};

// The decay of token row `row` for key channel c (0 for a scalar gate).
Decay decay_at(const Walk& w, std::int64_t row, std::int64_t c) {
  const LinearProblem& p = w.p;
  if (p.gate == GateKind::kNone) return {};
  const double x = load(p.g, offset_of(p.g, seq_batch(p, w.seq), row, w.head) + c);
  if (p.gate == GateKind::kLinear) return {x, std::log(x)};
  const double log = p.gate == GateKind::kLog ? x : activate(w, x, c);
  return {std::exp(log), log};
}

void store_decay_record(const Walk& w, std::int64_t t, std::int64_t c, double log) {
  const TensorView& record = w.p.record_decay;
  if (!record.present()) return;
  store_float(record.data, record.dtype, offset_of(record, w.seq, t, w.head) + c,
              static_cast<float>(log));
}

void decay_state(Walk& w, std::int64_t begin, std::int64_t t) {
  const std::int64_t channels = w.p.gate_per_channel ? w.p.dim_k : 1;
  for (std::int64_t c = 0; c < channels; ++c) {
    const Decay decay = decay_at(w, begin + t, c);
    store_decay_record(w, t, c, decay.log);
    const std::size_t step = w.p.gate_per_channel ? static_cast<std::size_t>(w.p.dim_k) : 1;
    for (std::size_t i = static_cast<std::size_t>(c); i < w.state.size(); i += step) {
      // A selection: what is forgotten may have been infinite.
      w.state[i] = decay.alpha == 0.0 ? 0.0 : w.state[i] * decay.alpha;
    }
  }
}

// erase * k, and the erase scalar itself (1 when erase is a vector).
double erase_key(Walk& w, std::int64_t row) {
  const LinearProblem& p = w.p;
  w.erased_k = w.k;
  if (p.erase == EraseKind::kOne) return 1.0;
  const std::int64_t offset = offset_of(p.beta, seq_batch(p, w.seq), row, w.head);
  double scalar = 1.0;
  if (p.erase == EraseKind::kScalar) {
    scalar = load(p.beta, offset);
    if (p.beta_is_logit) scalar = sigmoid(scalar);
  }
  for (std::size_t c = 0; c < w.k.size(); ++c) {
    w.erased_k[c] *= p.erase == EraseKind::kVector
                         ? load(p.beta, offset + static_cast<std::int64_t>(c))
                         : scalar;
  }
  return scalar;
}

double write_factor(const Walk& w, std::int64_t row, double erase, std::int64_t channel) {
  const LinearProblem& p = w.p;
  if (p.write == WriteKind::kErase) return erase;
  if (p.write == WriteKind::kOne) return 1.0;
  return load(p.w, offset_of(p.w, seq_batch(p, w.seq), row, w.head) + channel);
}

// `slot` is the row of the record, `row` the row of k, v and beta.
void store_update_record(const Walk& w, std::int64_t slot) {
  const LinearProblem& p = w.p;
  if (!p.record_k.present()) return;
  const std::int64_t k_head = w.head_of(p.heads_k);
  const bool first_of_group = w.head % (p.heads_o / p.heads_k) == 0;
  for (std::size_t c = 0; c < w.k.size() && first_of_group; ++c) {
    store_float(p.record_k.data, p.record_k.dtype,
                offset_of(p.record_k, w.seq, slot, k_head) + static_cast<std::int64_t>(c),
                static_cast<float>(w.k[c]));
  }
  for (std::size_t v = 0; v < w.d.size(); ++v) {
    store_float(p.record_d.data, p.record_d.dtype,
                offset_of(p.record_d, w.seq, slot, w.head) + static_cast<std::int64_t>(v),
                static_cast<float>(w.d[v]));
  }
}

// One update of the state by row `row` of k, v and beta.
void update_state(Walk& w, std::int64_t row) {
  const LinearProblem& p = w.p;
  load_key(w, p.k, row, w.k);
  const double erase = erase_key(w, row);
  const std::int64_t v = offset_of(p.v, seq_batch(p, w.seq), row, w.head_of(p.heads_v));
  for (std::int64_t i = 0; i < p.dim_v; ++i) {
    double* line = &w.state[static_cast<std::size_t>(i * p.dim_k)];
    double predicted = 0.0;
    for (std::size_t c = 0; c < w.k.size(); ++c) predicted += line[c] * w.erased_k[c];
    const double d = write_factor(w, row, erase, i) * load(p.v, v + i) - predicted;
    for (std::size_t c = 0; c < w.k.size(); ++c) line[c] += d * w.k[c];
    w.d[static_cast<std::size_t>(i)] = d;
  }
}

void read_out(Walk& w, std::int64_t row) {
  const LinearProblem& p = w.p;
  load_key(w, p.q, row, w.q);
  const std::int64_t o = offset_of(p.o, seq_batch(p, w.seq), row, w.head);
  for (std::int64_t i = 0; i < p.dim_v; ++i) {
    const double* line = &w.state[static_cast<std::size_t>(i * p.dim_k)];
    double sum = 0.0;
    for (std::size_t c = 0; c < w.q.size(); ++c) sum += line[c] * w.q[c];
    store_float(p.o.data, p.o.dtype, o + i, static_cast<float>(p.scale * sum));
  }
}

void load_state(Walk& w) {
  if (!starts_from_state(w.p, w.seq)) return;  // already zero
  const TensorView& view = w.p.state_in;
  const std::int64_t slot = read_row(w.p, w.seq);
  std::size_t i = 0;
  for (std::int64_t v = 0; v < w.p.dim_v; ++v) {
    for (std::int64_t c = 0; c < w.p.dim_k; ++c) {
      w.state[i++] = load(view, offset_of(view, slot, w.head, v) + c);
    }
  }
}

// Row `row` of a state tensor; kNoRow: nothing.
void store_state(const Walk& w, const TensorView& view, std::int64_t row) {
  if (row == kNoRow) return;
  std::size_t i = 0;
  for (std::int64_t v = 0; v < w.p.dim_v; ++v) {
    for (std::int64_t c = 0; c < w.p.dim_k; ++c) {
      store_float(view.data, view.dtype, offset_of(view, row, w.head, v) + c,
                  static_cast<float>(w.state[i++]));
    }
  }
}

// A sequence without tokens hands its state on; between equal dtypes bit for bit, NaN payloads too.
void pass_through(Walk& w) {
  const LinearProblem& p = w.p;
  const std::int64_t to = write_row(p, w.seq);
  if (to == kNoRow) return;
  if (!starts_from_state(p, w.seq) || p.state_in.dtype != p.state_out.dtype) {
    load_state(w);
    store_state(w, p.state_out, to);
    return;
  }
  const std::int64_t from = read_row(p, w.seq);
  const std::int64_t size = size_of(p.state_in.dtype);
  for (std::int64_t v = 0; v < p.dim_v; ++v) {
    std::memmove(
        static_cast<char*>(p.state_out.data) + offset_of(p.state_out, to, w.head, v) * size,
        static_cast<const char*>(p.state_in.data) + offset_of(p.state_in, from, w.head, v) * size,
        static_cast<std::size_t>(p.dim_k * size));
  }
}

void zero_output(const LinearProblem& p, std::int64_t seq, std::int64_t head) {
  for (std::int64_t t = 0; t < seq_len(p, seq); ++t) {
    const std::int64_t o = offset_of(p.o, seq_batch(p, seq), seq_begin(p, seq) + t, head);
    for (std::int64_t i = 0; i < p.dim_v; ++i) store_float(p.o.data, p.o.dtype, o + i, 0.0f);
  }
}

// Checkpoint `number` of the sequence if the state stands at its position.
void store_checkpoint(const Walk& w, std::int64_t tokens_done, CheckpointPosition position) {
  const LinearProblem& p = w.p;
  if (p.checkpoint_every == 0 || p.checkpoint_position != position) return;
  if (tokens_done % p.checkpoint_every != 0) return;
  const std::int64_t after = position == CheckpointPosition::kAfter ? 1 : 0;
  const std::int64_t number = tokens_done / p.checkpoint_every - after;
  store_state(w, p.checkpoints, checkpoint_row(p, w.seq, number));
}

void walk_sequence(const LinearProblem& p, std::int64_t seq, std::int64_t head) {
  if (is_skipped(p, seq)) return zero_output(p, seq, head);
  Walk w(p, seq, head);
  const std::int64_t len = seq_len(p, seq);
  if (len == 0) return pass_through(w);
  load_state(w);
  const std::int64_t begin = seq_begin(p, seq);
  for (std::int64_t t = 0; t < len; ++t) {
    store_checkpoint(w, t, CheckpointPosition::kBefore);
    decay_state(w, begin, t);
    for (std::int64_t j = 0; j < p.householder; ++j) {
      update_state(w, (begin + t) * p.householder + j);
      store_update_record(w, t * p.householder + j);
    }
    read_out(w, begin + t);
    store_state(w, p.state_out, slot_row(p, seq, t));
    store_checkpoint(w, t + 1, CheckpointPosition::kAfter);
  }
  store_state(w, p.state_out, write_row(p, seq));
}

Status launch(const Launch& launch) {
  const auto& p = std::get<LinearProblem>(launch.call);
  launch.resources.pool.parallel_for(p.num_seqs * p.heads_o, [&](std::int64_t item, int) {
    walk_sequence(p, item / p.heads_o, item % p.heads_o);
  });
  return {};
}

// Replays accepted tokens of a record on one slot's head: no prediction, d is known.
void commit_head(const CommitProblem& p, std::int64_t seq, std::int64_t head) {
  const std::int64_t row = index_at(p.index, seq);
  const std::int64_t accepted = index_at(p.accepted, seq);
  if (row < 0 || accepted == 0) return;
  const std::int64_t k_head = head * p.heads_k / p.heads_o;
  for (std::int64_t v = 0; v < p.dim_v; ++v) {
    const std::int64_t state = offset_of(p.state, row, head, v);
    for (std::int64_t c = 0; c < p.dim_k; ++c) {
      double value = load(p.state, state + c);
      for (std::int64_t t = 0; t < accepted; ++t) {
        const std::int64_t decay = offset_of(p.record_decay, seq, t, head);
        const double alpha = std::exp(load(p.record_decay, p.gate_per_channel ? decay + c : decay));
        value = alpha == 0.0 ? 0.0 : value * alpha;
        for (std::int64_t j = t * p.householder; j < (t + 1) * p.householder; ++j) {
          value += load(p.record_d, offset_of(p.record_d, seq, j, head) + v) *
                   load(p.record_k, offset_of(p.record_k, seq, j, k_head) + c);
        }
      }
      store_float(p.state.data, p.state.dtype, state + c, static_cast<float>(value));
    }
  }
}

Status launch_commit(const Launch& launch) {
  const auto& p = std::get<CommitProblem>(launch.call);
  launch.resources.pool.parallel_for(p.num_seqs * p.heads_o, [&](std::int64_t item, int) {
    commit_head(p, item / p.heads_o, item % p.heads_o);
  });
  return {};
}

std::optional<std::string> reject(const Operation& op, const DeviceFacts&) {
  const auto* p = std::get_if<LinearProblem>(&op);
  if (p == nullptr) return std::string(kOtherOperation);
  if (p->use_cp != UseCp::kTrue) return std::nullopt;
  return "use_cp must be \"auto\" or False, got True: the reference walks a sequence in one piece";
}

std::optional<std::string> reject_commit(const Operation& op, const DeviceFacts&) {
  if (std::holds_alternative<CommitProblem>(op)) return std::nullopt;
  return std::string(kOtherOperation);
}

double cost_us(const Operation&, const DeviceFacts&) { return kLastResortUs; }

Schedule schedule(const Operation&, const DeviceFacts&) {
  return {.note = "one token at a time, fp64"};
}

constexpr Candidate kCandidates[] = {
    {"reference.delta_rule", Backend::kReference, reject, cost_us, schedule, launch},
    {"reference.commit", Backend::kReference, reject_commit, cost_us, schedule, launch_commit},
};

}  // namespace

std::span<const Candidate> reference_linear_candidates() { return kCandidates; }

}  // namespace tilegate
