// SPDX-License-Identifier: Apache-2.0
// Gates, betas and head maps of one (sequence, head), element by element: the scalar side that the
// chunk walk and the recurrent walk share. Decays come out as linear alpha in [0, 1].
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "core/element.h"
#include "problem/linear.h"
#include "problem/sequences.h"

namespace tilegate::cpu_linear {

// Index of `head` of heads_o in a tensor of `heads` heads.
inline std::int64_t mapped_head(std::int64_t head, std::int64_t heads, std::int64_t heads_o) {
  return head * heads / heads_o;
}

inline float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }
inline float softplus(float x) { return x > 20.0f ? x : std::log1p(std::exp(x)); }

// The constants of one head's gate.
struct GateParams {
  GateKind kind = GateKind::kNone;
  float rate = 1.0f;  // exp(A_log)
  float lower_bound = 0.0f;
  float bias = 0.0f;              // scalar gates
  std::int64_t bias_offset = -1;  // channel gates: element offset of the row in dt_bias; -1: none
};

inline GateParams gate_params(const LinearProblem& p, std::int64_t head) {
  GateParams gate;
  gate.kind = p.gate;
  gate.lower_bound = p.lower_bound;
  if (p.a_log.present()) {
    const std::int64_t row = mapped_head(head, p.a_log.shape[0], p.heads_o);
    gate.rate = std::exp(load_float(p.a_log.data, p.a_log.dtype, row * p.a_log.strides[0]));
  }
  if (p.dt_bias.present()) {
    const std::int64_t row = mapped_head(head, p.dt_bias.shape[0], p.heads_o);
    gate.bias_offset = row * p.dt_bias.strides[0];
    if (p.dt_bias.rank == 1) {
      gate.bias = load_float(p.dt_bias.data, p.dt_bias.dtype, gate.bias_offset);
    }
  }
  return gate;
}

// ln alpha of a stored gate value; -inf where alpha is 0.
inline float log_decay(const GateParams& gate, float stored, float bias) {
  switch (gate.kind) {
    case GateKind::kNone:
      return 0.0f;
    case GateKind::kLinear:
      return stored > 0.0f ? std::log(stored) : -std::numeric_limits<float>::infinity();
    case GateKind::kLog:
      return stored;
    case GateKind::kSoftplus:
      return -gate.rate * softplus(stored + bias);
    case GateKind::kLowerBound:
      return gate.lower_bound * sigmoid(gate.rate * (stored + bias));
  }
  return 0.0f;
}

// alpha of a stored gate value.
inline float decay(const GateParams& gate, float stored, float bias) {
  if (gate.kind == GateKind::kNone) return 1.0f;
  if (gate.kind == GateKind::kLinear) return stored;
  return std::exp(log_decay(gate, stored, bias));
}

// The stored scalar gate of token `token` (a row of dimension 1).
inline float stored_gate(const LinearProblem& p, std::int64_t batch, std::int64_t token,
                         std::int64_t head) {
  if (p.gate == GateKind::kNone) return 0.0f;
  return load_float(p.g.data, p.g.dtype, offset_of(p.g, batch, token, head));
}

// The erase scalar of row `row` (tokens times householder) of dimension 1.
inline float erase_scalar(const LinearProblem& p, std::int64_t batch, std::int64_t row,
                          std::int64_t head) {
  if (p.erase != EraseKind::kScalar) return 1.0f;
  const float x = load_float(p.beta.data, p.beta.dtype, offset_of(p.beta, batch, row, head));
  return p.beta_is_logit ? sigmoid(x) : x;
}

}  // namespace tilegate::cpu_linear
