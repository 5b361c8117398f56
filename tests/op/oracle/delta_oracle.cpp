// SPDX-License-Identifier: Apache-2.0
// One token, one head at a time; every dtype is read as it is stored, all arithmetic is fp64.
#include "tests/op/oracle/delta_oracle.h"

#include <cmath>

namespace laws {
namespace {

using tilegate::DeltaRule;
using Vector = std::vector<double>;

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double softplus(double x) { return x > 20.0 ? x : std::log1p(std::exp(x)); }

// Row-major view of rows: decode tensors [B, T, ..] become [B * T, ..].
Tensor flat_rows(const Tensor& t, bool decode) {
  if (!decode || !t.present()) return t;
  Dims shape(t.shape().begin() + 1, t.shape().end());
  Dims strides(t.strides().begin() + 1, t.strides().end());
  shape[0] *= t.dim(0);
  return t.reshaped(shape, strides);
}

struct Recurrence {
  explicit Recurrence(const DeltaCall& c)
      : call(c),
        q(flat_rows(c.q, c.decode())),
        k(flat_rows(c.k, c.decode())),
        v(flat_rows(c.v, c.decode())),
        a(flat_rows(c.a, c.decode())),
        b(flat_rows(c.b, c.decode())),
        heads(c.heads_o()),
        dim_k(c.dim_k()),
        dim_v(c.dim_v()),
        scale(c.options.scale.value_or(1.0 / std::sqrt(static_cast<double>(dim_k)))) {}

  // A q or k row of state head h, normalised if the call asks for it.
  Vector row(const Tensor& tensor, std::int64_t t, std::int64_t h) const {
    const std::int64_t head = h * tensor.dim(1) / heads;
    Vector x(static_cast<std::size_t>(dim_k));
    double square = 0.0;
    for (std::int64_t i = 0; i < dim_k; ++i) {
      x[static_cast<std::size_t>(i)] = tensor.at(t, head, i);
      square += x[static_cast<std::size_t>(i)] * x[static_cast<std::size_t>(i)];
    }
    if (call.options.use_qk_l2norm.value_or(call.decode())) {
      for (double& value : x) value /= std::sqrt(square + 1e-6);
    }
    return x;
  }

  double log_domain(double g) const {
    const bool linear_op =
        call.rule == DeltaRule::kGatedDeltaRule || call.rule == DeltaRule::kGatedDeltaProduct;
    const auto domain = call.options.gate_domain;
    const bool linear = domain == tilegate::GateDomain::kDefault
                            ? linear_op
                            : domain == tilegate::GateDomain::kLinear;
    return linear ? std::log(g) : g;
  }

  // Decay of column i.
  double decay(std::int64_t t, std::int64_t h, std::int64_t i) const {
    if (call.decode()) {
      return std::exp(-std::exp(call.a_log.at(h)) * softplus(a.at(t, h) + call.dt_bias.at(h)));
    }
    if (!call.g.present()) return 1.0;
    const double g = call.g.shape().size() == 3 ? call.g.at(t, h, i) : call.g.at(t, h);
    if (!call.options.use_gate_in_kernel) return std::exp(log_domain(g));
    const double rate = std::exp(call.a_log.at(h * call.a_log.dim(0) / heads));
    const double bias =
        call.dt_bias.present() ? call.dt_bias.at(h * call.dt_bias.dim(0) / heads, i) : 0.0;
    if (call.options.lower_bound.has_value()) {
      return std::exp(*call.options.lower_bound * sigmoid(rate * (g + bias)));
    }
    return std::exp(-rate * softplus(g + bias));
  }

  double beta(std::int64_t row_index, std::int64_t h, std::int64_t i) const {
    if (call.decode()) return sigmoid(b.at(row_index, h));
    if (!call.beta.present()) return 1.0;
    const double value =
        call.beta.shape().size() == 3 ? call.beta.at(row_index, h, i) : call.beta.at(row_index, h);
    return call.options.beta_is_logit ? sigmoid(value) : value;
  }

  double write(std::int64_t row_index, std::int64_t h, std::int64_t j) const {
    if (call.rule != DeltaRule::kGatedDeltaRule2) return beta(row_index, h, 0);
    return call.w.present() ? call.w.at(row_index, h, j) : 1.0;
  }

  // S [V, K] of head h passes token t; returns the output row.
  Vector step(double* s, std::int64_t t, std::int64_t h) const {
    for (std::int64_t i = 0; i < dim_k; ++i) {
      const double alpha = decay(t, h, i);
      for (std::int64_t j = 0; j < dim_v; ++j) s[j * dim_k + i] *= alpha;
    }
    const std::int64_t n = call.options.num_householder;
    for (std::int64_t r = t * n; r < (t + 1) * n; ++r) {
      const Vector key = row(k, r, h);
      Vector erased = key;
      for (std::int64_t i = 0; i < dim_k; ++i) erased[static_cast<std::size_t>(i)] *= beta(r, h, i);
      for (std::int64_t j = 0; j < dim_v; ++j) {
        double* s_row = s + j * dim_k;
        double d = write(r, h, j) * v.at(r, h * v.dim(1) / heads, j);
        for (std::int64_t i = 0; i < dim_k; ++i)
          d -= s_row[i] * erased[static_cast<std::size_t>(i)];
        for (std::int64_t i = 0; i < dim_k; ++i) s_row[i] += d * key[static_cast<std::size_t>(i)];
      }
    }
    const Vector query = row(q, t, h);
    Vector out(static_cast<std::size_t>(dim_v), 0.0);
    for (std::int64_t j = 0; j < dim_v; ++j) {
      double& sum = out[static_cast<std::size_t>(j)];
      for (std::int64_t i = 0; i < dim_k; ++i) {
        sum += s[j * dim_k + i] * query[static_cast<std::size_t>(i)];
      }
      sum *= scale;
    }
    return out;
  }

  // Zero, or the stored state of sequence n.
  Vector initial_state(std::int64_t n) const {
    Vector state(static_cast<std::size_t>(heads * dim_v * dim_k), 0.0);
    if (call.has_initial_state.present() && call.has_initial_state.at(n) == 0.0) return state;
    Tensor stored;
    if (call.state_pool.present()) {
      const auto slot =
          call.state_indices.present() ? static_cast<std::int64_t>(call.state_indices.at(n)) : n;
      if (slot < 0) return state;
      stored = call.state_pool.select(0, slot);
    } else if (call.initial_state.present()) {
      stored = call.initial_state.select(0, n);
    } else {
      return state;
    }
    for (std::size_t i = 0; i < state.size(); ++i) {
      state[i] = stored.flat(static_cast<std::int64_t>(i));
    }
    return state;
  }

  const DeltaCall& call;
  Tensor q, k, v, a, b;
  std::int64_t heads, dim_k, dim_v;
  double scale;
};

}  // namespace

Vector DeltaAnswer::all_final_states() const {
  Vector all;
  for (const Vector& state : final_state) all.insert(all.end(), state.begin(), state.end());
  return all;
}

Vector DeltaAnswer::o_of(const DeltaCall& call, std::size_t sequence) const {
  std::int64_t first = 0;
  for (std::size_t i = 0; i < sequence; ++i) first += call.lens[i];
  const std::int64_t width = call.heads_o() * call.dim_v();
  return Vector(o.begin() + first * width, o.begin() + (first + call.lens[sequence]) * width);
}

DeltaAnswer delta_oracle(const DeltaCall& call, std::int64_t every) {
  const Recurrence recurrence(call);
  DeltaAnswer answer;
  std::int64_t token = 0;
  for (std::size_t n = 0; n < call.lens.size(); ++n) {
    Vector state = recurrence.initial_state(static_cast<std::int64_t>(n));
    answer.states.emplace_back();
    for (std::int64_t t = 0; t < call.lens[n]; ++t, ++token) {
      if (every > 0 && t % every == 0) answer.states.back().push_back(state);
      for (std::int64_t h = 0; h < recurrence.heads; ++h) {
        double* s = state.data() + h * recurrence.dim_v * recurrence.dim_k;
        const Vector row = recurrence.step(s, token, h);
        answer.o.insert(answer.o.end(), row.begin(), row.end());
      }
    }
    if (every > 0 && call.lens[n] % every == 0) answer.states.back().push_back(state);
    answer.final_state.push_back(state);
  }
  return answer;
}

}  // namespace laws
