// SPDX-License-Identifier: Apache-2.0
// Building delta-rule calls.
#include "tests/op/calls/delta_call.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace laws {

using tilegate::CheckpointPosition;
using tilegate::DeltaRule;
using tilegate::DType;

namespace {

Dims offsets(const Dims& lens, std::int64_t factor = 1) {
  Dims result(1, 0);
  for (std::int64_t len : lens) result.push_back(result.back() + len * factor);
  return result;
}

bool channel_gate(DeltaRule rule) {
  return rule == DeltaRule::kGatedDeltaRule2 || rule == DeltaRule::kKda;
}

// A tensor of `rows` random rows followed by `spare` poisoned ones.
template <class Fill>
Tensor rows_of(DType dtype, Dims shape, std::int64_t spare, Fill&& fill) {
  const std::int64_t rows = shape[0];
  shape[0] += spare;
  Tensor tensor = Tensor::packed(dtype, shape);
  fill(tensor.slice(0, 0, rows));
  return tensor;
}

void fill_gate(Random& random, Tensor g, bool log_domain) {
  for (std::int64_t i = 0; i < g.numel(); ++i) {
    const double alpha = random.uniform(0.85, 1.0);
    g.set_flat(i, log_domain ? std::log(alpha) : alpha);
  }
}

void make_decode(DeltaCall& call, const DeltaShape& s, Random& random) {
  const auto batch = static_cast<std::int64_t>(s.lens.size());
  const std::int64_t tokens = batch > 0 ? s.lens.front() : 1, heads = s.heads_o();
  call.q = random.normals(Tensor::packed(s.dtype, {batch, tokens, s.heads_q, s.dim_k}));
  call.k = random.unit_rows(Tensor::packed(s.dtype, {batch, tokens, s.heads_k, s.dim_k}));
  call.v = random.normals(Tensor::packed(s.dtype, {batch, tokens, s.heads_v, s.dim_v}));
  call.a = random.normals(Tensor::packed(s.dtype, {batch, tokens, heads}));
  call.b = random.normals(Tensor::packed(s.dtype, {batch, tokens, heads}));
  call.a_log = random.uniforms(Tensor::packed(DType::kFloat32, {heads}), -2.0, 0.5);
  call.dt_bias = random.uniforms(Tensor::packed(DType::kFloat32, {heads}), -1.0, 1.0);
  call.o = Tensor::packed(s.dtype, {batch, tokens, heads, s.dim_v});
}

void make_chunk(DeltaCall& call, const DeltaShape& s, Random& random) {
  const std::int64_t n = s.householder, heads = s.heads_o(), spare = s.spare_rows;
  const std::int64_t tokens = std::accumulate(s.lens.begin(), s.lens.end(), std::int64_t{0});
  auto normal = [&](Tensor t) { random.normals(t); };
  auto unit = [&](Tensor t) { random.unit_rows(t); };
  auto fraction = [&](Tensor t) { random.uniforms(t, 0.0, 1.0); };
  call.q = rows_of(s.dtype, {tokens, s.heads_q, s.dim_k}, spare, normal);
  call.k = rows_of(s.dtype, {tokens * n, s.heads_k, s.dim_k}, spare * n, unit);
  call.v = rows_of(s.dtype, {tokens * n, s.heads_v, s.dim_v}, spare * n, normal);
  const Dims per_head = {tokens, heads}, per_channel = {tokens, heads, s.dim_k};
  call.g = rows_of(s.gate_dtype, channel_gate(s.rule) ? per_channel : per_head, spare,
                   [&](Tensor t) { fill_gate(random, t, channel_gate(s.rule)); });
  if (s.rule == DeltaRule::kGatedDeltaRule2) {
    call.beta = rows_of(DType::kFloat32, per_channel, spare, fraction);
    call.w = rows_of(DType::kFloat32, {tokens, heads, s.dim_v}, spare, fraction);
  } else {
    call.beta = rows_of(DType::kFloat32, {tokens * n, heads}, spare * n, fraction);
  }
  call.cu_seqlens = Tensor::indices(offsets(s.lens), s.index);
  call.o = Tensor::packed(s.dtype, {tokens + spare, heads, s.dim_v});
}

}  // namespace

std::int64_t DeltaCall::tokens() const {
  return std::accumulate(lens.begin(), lens.end(), std::int64_t{0});
}

std::int64_t DeltaCall::heads_o() const { return o.dim(static_cast<int>(o.shape().size()) - 2); }

Tensor DeltaCall::o_rows() const {
  if (!decode()) return o.slice(0, 0, tokens());
  return o.reshaped({o.dim(0) * o.dim(1), o.dim(2), o.dim(3)},
                    {o.strides()[1], o.strides()[2], o.strides()[3]});
}

Tensor DeltaCall::o_of(std::size_t sequence) const {
  const Dims at = offsets(lens);
  return o_rows().slice(0, at[sequence], at[sequence + 1]);
}

void DeltaCall::reset_outputs() {
  auto fresh = [](Tensor& t) {
    if (t.present()) t = Tensor::strided(t.dtype(), t.shape(), t.strides());
  };
  fresh(o);
  fresh(output_state);
  fresh(state_checkpoints);
}

void DeltaCall::use_pool(std::int64_t spare, std::uint64_t seed) {
  const auto n = static_cast<std::int64_t>(lens.size());
  Dims shape = initial_state.shape();
  shape[0] = n + spare;
  Dims slots = Random(seed).permutation(n + spare);
  slots.resize(lens.size());
  state_pool = Tensor::packed(initial_state.dtype(), shape);
  for (std::int64_t i = 0; i < n; ++i) {
    state_pool.select(0, slots[static_cast<std::size_t>(i)]).copy_from(initial_state.select(0, i));
  }
  state_indices = Tensor::indices(slots);
  initial_state = output_state = {};
  options.output_final_state = false;
}

std::int64_t DeltaCall::checkpoints_of(std::size_t sequence) const {
  const std::int64_t every = options.checkpoint_every_n_tokens;
  const bool before = options.checkpoint_position == CheckpointPosition::kBefore;
  return (lens[sequence] + (before ? every - 1 : 0)) / every;
}

void DeltaCall::add_checkpoints(std::int64_t every, CheckpointPosition position, DType dtype) {
  options.checkpoint_every_n_tokens = every;
  options.checkpoint_position = position;
  Dims counts;
  for (std::size_t i = 0; i < lens.size(); ++i) counts.push_back(checkpoints_of(i));
  const Dims starts = offsets(counts);
  checkpoint_cu_starts = Tensor::indices(starts, cu_seqlens.dtype());
  state_checkpoints = Tensor::packed(dtype, {starts.back() + 1, heads_o(), dim_v(), dim_k()});
}

std::vector<Argument> DeltaCall::arguments() {
  return {{"q", &q, Role::kIn},
          {"k", &k, Role::kIn},
          {"v", &v, Role::kIn},
          {"g", &g, Role::kIn},
          {"beta", &beta, Role::kIn},
          {"w", &w, Role::kIn},
          {"a", &a, Role::kIn},
          {"b", &b, Role::kIn},
          {"A_log", &a_log, Role::kIn},
          {"dt_bias", &dt_bias, Role::kIn},
          {"cu_seqlens", &cu_seqlens, Role::kIn},
          {"initial_state", &initial_state, Role::kIn},
          {"output_state", &output_state, Role::kOut},
          {"state_pool", &state_pool, output_state_pool.present() ? Role::kIn : Role::kOut},
          {"output_state_pool", &output_state_pool, Role::kOut},
          {"state_indices", &state_indices, Role::kIn},
          {"output_state_indices", &output_state_indices, Role::kIn},
          {"has_initial_state", &has_initial_state, Role::kIn},
          {"state_checkpoints", &state_checkpoints, Role::kOut},
          {"checkpoint_cu_starts", &checkpoint_cu_starts, Role::kIn},
          {"checkpoint_state_indices", &checkpoint_state_indices, Role::kIn},
          {"state_slots", &state_slots, Role::kIn},
          {"num_accepted_tokens", &num_accepted_tokens, Role::kIn},
          {"record_k", &record_k, Role::kOut},
          {"record_d", &record_d, Role::kOut},
          {"record_decay", &record_decay, Role::kOut},
          {"o", &o, Role::kOut}};
}

tilegate::CallArgs DeltaCall::args() const {
  tilegate::DeltaRuleArgs args;
  args.q = q.view();
  args.k = k.view();
  args.v = v.view();
  args.g = g.view();
  args.beta = beta.view();
  args.w = w.view();
  args.a = a.view();
  args.b = b.view();
  args.A_log = a_log.view();
  args.dt_bias = dt_bias.view();
  args.cu_seqlens = cu_seqlens.view();
  args.initial_state = initial_state.view();
  args.output_state = output_state.view();
  args.state_pool = state_pool.view();
  args.output_state_pool = output_state_pool.view();
  args.state_indices = state_indices.view();
  args.output_state_indices = output_state_indices.view();
  args.has_initial_state = has_initial_state.view();
  args.state_checkpoints = state_checkpoints.view();
  args.checkpoint_cu_starts = checkpoint_cu_starts.view();
  args.checkpoint_state_indices = checkpoint_state_indices.view();
  args.state_slots = state_slots.view();
  args.num_accepted_tokens = num_accepted_tokens.view();
  args.record_k = record_k.view();
  args.record_d = record_d.view();
  args.record_decay = record_decay.view();
  args.o = o.view();
  return args;
}

tilegate::Result<tilegate::Problem> DeltaCall::describe() const {
  return tilegate::describe(rule, std::get<tilegate::DeltaRuleArgs>(args()), options);
}

DeltaCall make_delta(const DeltaShape& shape) {
  Random random(shape.seed);
  DeltaCall call;
  call.rule = shape.rule;
  call.lens = shape.lens;
  call.options.num_householder = shape.householder;
  if (!call.decode()) call.options.max_seqlen = declared_length(shape.lens);
  if (call.decode()) {
    make_decode(call, shape, random);
  } else {
    make_chunk(call, shape, random);
  }
  const auto sequences = static_cast<std::int64_t>(shape.lens.size());
  const Dims states = {sequences, shape.heads_o(), shape.dim_v, shape.dim_k};
  call.initial_state = random.normals(Tensor::packed(shape.state_dtype, states), 0.3);
  call.output_state = Tensor::packed(shape.state_dtype, states);
  call.options.output_final_state = true;
  return call;
}

DeltaCall part_of(const DeltaCall& call, std::size_t sequence, std::int64_t begin,
                  std::int64_t end) {
  DeltaCall part = call;
  const std::int64_t first = offsets(call.lens)[sequence], n = call.options.num_householder;
  auto cut = [&](const Tensor& t, std::int64_t factor) {
    return t.present() ? t.slice(0, (first + begin) * factor, (first + end) * factor) : Tensor{};
  };
  const std::int64_t beta_rows = call.rule == DeltaRule::kGatedDeltaProduct ? n : 1;
  part.lens = {end - begin};
  part.q = cut(call.q, 1);
  part.k = cut(call.k, n);
  part.v = cut(call.v, n);
  part.g = cut(call.g, 1);
  part.w = cut(call.w, 1);
  part.beta = cut(call.beta, beta_rows);
  part.cu_seqlens = Tensor::indices({0, end - begin}, call.cu_seqlens.dtype());
  part.o = Tensor::packed(call.o.dtype(), {end - begin, call.o.dim(1), call.o.dim(2)});
  const auto row = static_cast<std::int64_t>(sequence);
  if (call.initial_state.present()) {
    part.initial_state = call.initial_state.slice(0, row, row + 1);
  }
  if (call.output_state.present()) {
    Dims shape = call.output_state.shape();
    shape[0] = 1;
    part.output_state = Tensor::packed(call.output_state.dtype(), shape);
  }
  part.state_checkpoints = part.checkpoint_cu_starts = part.checkpoint_state_indices = {};
  part.options.checkpoint_every_n_tokens = 0;
  return part;
}

std::string label(const DeltaCall& call) {
  constexpr const char* kNames[] = {"gdn", "gdn2", "gdp", "kda", "gdn decode"};
  return std::string(kNames[static_cast<int>(call.rule)]) + " " +
         std::string(tilegate::to_string(call.o.dtype())) + " lens " + to_string(call.lens) +
         " k " + to_string(call.k.shape()) + " v " + to_string(call.v.shape());
}

}  // namespace laws
