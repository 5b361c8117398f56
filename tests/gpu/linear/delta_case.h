// SPDX-License-Identifier: Apache-2.0
// A random delta-rule call of a few tokens a sequence, in host memory and on the GPU, with its
// answer from the fp64 reference backend. Every tensor is a member: a test changes what it is about
// and runs. Outputs are poisoned, so every element that must be written is checked to be.
#pragma once

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/element.h"
#include "tests/gpu/device.h"
#include "tilegate/device_memory.h"
#include "tilegate/tilegate.h"

namespace tilegate::test {

// A tensor in host memory and a copy of it on the GPU.
class Mirror {
 public:
  Mirror() = default;
  // `gap` elements after every row of the last dimension but the inner two.
  Mirror(DType dtype, std::initializer_list<std::int64_t> dims, std::int64_t gap = 0)
      : view_(TensorView::packed(nullptr, dtype, dims)) {
    for (int i = view_.rank - 2; i >= 0 && gap > 0; --i) {
      view_.strides[i] = view_.strides[i + 1] * view_.shape[i + 1] + gap;
    }
    std::int64_t size = view_.rank > 0 ? 1 : 0;
    for (int i = 0; i < view_.rank; ++i) {
      if (view_.shape[i] == 0) size = 0;
      if (size > 0) size += (view_.shape[i] - 1) * view_.strides[i];
    }
    host_.resize(static_cast<std::size_t>(size * size_of(dtype)));
  }

  bool present() const { return view_.present(); }
  TensorView host() {
    TensorView view = view_;
    view.data = host_.data();
    return view;
  }
  // Copies the host's bytes on first use and after push().
  TensorView device() {
    if (!present()) return {};
    if (buffer_.data() == nullptr) push();
    TensorView view = view_;
    view.data = buffer_.data();
    view.device = {DeviceType::kCuda, 0};
    return view;
  }
  void push() {
    if (buffer_.data() == nullptr) {
      buffer_ = DeviceBuffer::allocate({DeviceType::kCuda, 0}, host_.size() + 16).value();
    }
    buffer_.copy_from_host(host_.data(), host_.size()).throw_if_error();
  }
  std::vector<unsigned char> read() const {
    std::vector<unsigned char> bytes(host_.size());
    buffer_.copy_to_host(bytes.data(), bytes.size()).throw_if_error();
    return bytes;
  }
  const std::vector<unsigned char>& bytes() const { return host_; }
  void set_bytes(const std::vector<unsigned char>& bytes) { host_ = bytes; }

  DType dtype() const { return view_.dtype; }
  std::int64_t elements() const {  // gaps too
    return static_cast<std::int64_t>(host_.size()) / size_of(view_.dtype);
  }
  std::int64_t dim(int i) const { return view_.shape[i]; }
  std::int64_t stride(int i) const { return view_.strides[i]; }
  float get(std::int64_t i) const { return load_float(host_.data(), view_.dtype, i); }
  void set(std::int64_t i, float x) { store_float(host_.data(), view_.dtype, i, x); }
  void set_index(std::int64_t i, std::int64_t x) {
    if (view_.dtype == DType::kInt64) {
      reinterpret_cast<std::int64_t*>(host_.data())[i] = x;
    } else if (view_.dtype == DType::kInt32) {
      reinterpret_cast<std::int32_t*>(host_.data())[i] = static_cast<std::int32_t>(x);
    } else {
      host_[static_cast<std::size_t>(i)] = static_cast<unsigned char>(x);
    }
  }
  void fill(float x) {
    for (std::int64_t i = 0; i < elements(); ++i) set(i, x);
  }
  // Uniform in [low, high).
  void draw(Random& random, float low, float high) {
    for (std::int64_t i = 0; i < elements(); ++i) {
      set(i, low + (high - low) * 0.5f * (random.uniform() + 1.0f));
    }
  }

 private:
  TensorView view_;
  std::vector<unsigned char> host_;
  DeviceBuffer buffer_;
};

struct DeltaShape {
  DeltaRule rule = DeltaRule::kGatedDeltaRuleDecode;
  std::vector<int> lens = {1, 1, 1};  // equal lengths: a uniform batch, unless packed
  bool packed = false;
  std::int64_t heads_q = 2, heads_k = 2, heads_v = 4;
  std::int64_t dim_k = 128, dim_v = 128;
  std::int64_t householder = 1;
  bool raw_gates = false;  // KDA: use_gate_in_kernel
  DType dtype = DType::kBFloat16;
  DType gate = DType::kFloat32;
  DType state = DType::kFloat32;
  DType out_state = DType::kFloat32;  // of an own output state
  DType index = DType::kInt32;
  std::int64_t gap = 0;    // elements between rows of tokens and states
  std::int64_t slots = 0;  // > 0: a pool with so many slots instead of own states

  std::int64_t heads_o() const { return std::max(heads_q, heads_v); }
  std::int64_t longest() const {
    int longest = 0;
    for (int len : lens) longest = std::max(longest, len);
    return longest;
  }
};

class DeltaCase {
 public:
  explicit DeltaCase(const DeltaShape& wanted, std::uint64_t seed = 1)
      : shape(wanted), random(seed) {
    make_tokens();
    make_states();
    options.num_householder = shape.householder;
    options.max_seqlen = shape.packed ? std::max<std::int64_t>(shape.longest(), 1) : 0;
  }

  // Slots of the tokens' states, all different: `first` + i T + t.
  void add_slots(std::int64_t first) {
    const std::int64_t columns = shape.packed ? options.max_seqlen : shape.longest();
    state_slots = Mirror(shape.index, {num_seqs(), columns});
    for (std::int64_t i = 0; i < state_slots.elements(); ++i) state_slots.set_index(i, first + i);
  }
  void add_record() {
    const std::int64_t columns = shape.packed ? options.max_seqlen : shape.longest();
    const std::int64_t rows = columns * shape.householder;
    record_k = Mirror(DType::kFloat32, {num_seqs(), rows, shape.heads_k, shape.dim_k});
    record_d = Mirror(DType::kFloat32, {num_seqs(), rows, shape.heads_o(), shape.dim_v});
    record_decay =
        channels() ? Mirror(DType::kFloat32, {num_seqs(), columns, shape.heads_o(), shape.dim_k})
                   : Mirror(DType::kFloat32, {num_seqs(), columns, shape.heads_o()});
    for (Mirror* m : {&record_k, &record_d, &record_decay}) m->fill(7.5f);
  }

  std::int64_t num_seqs() const { return static_cast<std::int64_t>(shape.lens.size()); }
  bool channels() const {
    return shape.rule == DeltaRule::kKda || shape.rule == DeltaRule::kGatedDeltaRule2;
  }
  DeltaRuleArgs host() { return args(&Mirror::host); }
  DeltaRuleArgs device() { return args(&Mirror::device); }
  std::vector<Mirror*> outputs() {
    return {&o, &output_state, &pool, &record_k, &record_d, &record_decay, &checkpoints};
  }
  std::vector<Mirror*> all() {
    std::vector<Mirror*> list = outputs();
    for (Mirror* m :
         {&q, &k, &v, &g, &beta, &w, &a, &b, &a_log, &dt_bias, &cu_seqlens, &state, &state_indices,
          &output_state_indices, &has_initial, &state_slots, &accepted, &checkpoint_starts}) {
      list.push_back(m);
    }
    return list;
  }
  void push() {
    for (Mirror* m : all()) {
      if (m->present()) m->push();
    }
  }

  DeltaShape shape;
  Random random;
  DeltaRuleOptions options{};
  Mirror q, k, v, g, beta, w, a, b, a_log, dt_bias, cu_seqlens;
  Mirror state, output_state, pool, state_indices, output_state_indices, has_initial;
  Mirror state_slots, accepted, record_k, record_d, record_decay, checkpoints, checkpoint_starts;
  Mirror o;

 private:
  Mirror tokens(DType dtype, std::int64_t rows, std::int64_t heads, std::int64_t inner) {
    if (shape.packed) return Mirror(dtype, {rows, heads, inner}, shape.gap);
    return Mirror(dtype, {num_seqs(), rows, heads, inner}, shape.gap);
  }
  Mirror head_values(DType dtype, std::int64_t rows) {
    if (shape.packed) return Mirror(dtype, {rows, shape.heads_o()});
    return Mirror(dtype, {num_seqs(), rows, shape.heads_o()});
  }

  void make_tokens() {
    std::int64_t rows = shape.longest();
    if (shape.packed) {
      cu_seqlens = Mirror(shape.index, {num_seqs() + 1});
      rows = 0;
      for (std::int64_t i = 0; i < num_seqs(); ++i) {
        cu_seqlens.set_index(i, rows);
        rows += shape.lens[static_cast<std::size_t>(i)];
      }
      cu_seqlens.set_index(num_seqs(), rows);
      rows += 2;  // past the last offset
    }
    const std::int64_t steps = rows * shape.householder;
    q = tokens(shape.dtype, rows, shape.heads_q, shape.dim_k);
    k = tokens(shape.dtype, steps, shape.heads_k, shape.dim_k);
    v = tokens(shape.dtype, steps, shape.heads_v, shape.dim_v);
    o = tokens(shape.dtype, rows, shape.heads_o(), shape.dim_v);
    const float size = 1.7f / std::sqrt(static_cast<float>(shape.dim_k));  // |k| near 1
    q.draw(random, -size, size);
    k.draw(random, -size, size);
    v.draw(random, -1.0f, 1.0f);
    o.fill(7.5f);
    make_gates(rows, steps);
  }

  void make_gates(std::int64_t rows, std::int64_t steps) {
    if (shape.rule == DeltaRule::kGatedDeltaRuleDecode) {
      a = head_values(shape.dtype, rows);
      b = head_values(shape.dtype, rows);
      a.draw(random, -3.0f, 3.0f);
      b.draw(random, -3.0f, 3.0f);
      dt_bias = Mirror(DType::kFloat32, {shape.heads_o()});
    } else if (channels()) {
      g = tokens(shape.gate, rows, shape.heads_o(), shape.dim_k);
      g.draw(random, -2.0f, shape.raw_gates ? 2.0f : 0.0f);
      if (shape.raw_gates) dt_bias = Mirror(DType::kBFloat16, {shape.heads_o(), shape.dim_k});
    } else {
      g = head_values(shape.gate, rows);
      g.draw(random, 0.5f, 1.0f);
    }
    if (shape.raw_gates || a.present()) {
      a_log = Mirror(DType::kFloat32, {shape.heads_o()});
      a_log.draw(random, -1.0f, 1.0f);
      dt_bias.draw(random, -1.0f, 1.0f);
      options.use_gate_in_kernel = shape.raw_gates;
    }
    if (a.present()) return;
    if (shape.rule == DeltaRule::kGatedDeltaRule2) {
      beta = tokens(DType::kFloat32, rows, shape.heads_o(), shape.dim_k);
      w = tokens(DType::kFloat32, rows, shape.heads_o(), shape.dim_v);
      w.draw(random, 0.0f, 1.0f);
    } else {
      beta = head_values(DType::kFloat32, steps);
    }
    beta.draw(random, 0.0f, 1.0f);
  }

  void make_states() {
    const std::int64_t heads = shape.heads_o();
    if (shape.slots == 0) {
      state = Mirror(shape.state, {num_seqs(), heads, shape.dim_v, shape.dim_k}, shape.gap);
      output_state =
          Mirror(shape.out_state, {num_seqs(), heads, shape.dim_v, shape.dim_k}, shape.gap);
      state.draw(random, -1.0f, 1.0f);
      output_state.fill(7.5f);
      options.output_final_state = true;
      return;
    }
    pool = Mirror(shape.state, {shape.slots, heads, shape.dim_v, shape.dim_k}, shape.gap);
    pool.draw(random, -1.0f, 1.0f);
    state_indices = Mirror(shape.index, {num_seqs()});
    for (std::int64_t i = 0; i < num_seqs(); ++i) {
      state_indices.set_index(i, (5 * i + 3) % shape.slots);  // different while slots % 5 != 0
    }
  }

  DeltaRuleArgs args(TensorView (Mirror::*view)()) {
    DeltaRuleArgs out;
    out.q = (q.*view)(), out.k = (k.*view)(), out.v = (v.*view)(), out.o = (o.*view)();
    out.g = (g.*view)(), out.beta = (beta.*view)(), out.w = (w.*view)();
    out.a = (a.*view)(), out.b = (b.*view)();
    out.A_log = (a_log.*view)(), out.dt_bias = (dt_bias.*view)();
    out.cu_seqlens = (cu_seqlens.*view)();
    out.initial_state = (state.*view)(), out.output_state = (output_state.*view)();
    out.state_pool = (pool.*view)(), out.state_indices = (state_indices.*view)();
    out.output_state_indices = (output_state_indices.*view)();
    out.has_initial_state = (has_initial.*view)();
    out.state_slots = (state_slots.*view)();
    out.num_accepted_tokens = (accepted.*view)();
    out.record_k = (record_k.*view)(), out.record_d = (record_d.*view)();
    out.record_decay = (record_decay.*view)();
    out.state_checkpoints = (checkpoints.*view)();
    out.checkpoint_cu_starts = (checkpoint_starts.*view)();
    return out;
  }
};

// Largest error of the GPU's bytes against the host tensor in units of the dtype's tolerance;
// infinite when NaN, -inf or inf stand in different places.
inline double error_of(const Mirror& wanted, const std::vector<unsigned char>& got) {
  double tolerance = 2e-5;
  if (wanted.dtype() == DType::kFloat16) tolerance = 2e-3;
  if (wanted.dtype() == DType::kBFloat16) tolerance = 1.2e-2;
  double worst = 0.0;
  for (std::int64_t i = 0; i < wanted.elements(); ++i) {
    const double x = wanted.get(i);
    const double y = load_float(got.data(), wanted.dtype(), i);
    if (std::isfinite(x) && std::isfinite(y)) {
      worst = std::max(worst, std::abs(x - y) / (tolerance * std::max(1.0, std::abs(x))));
    } else if (!(x == y) && !(std::isnan(x) && std::isnan(y))) {
      return std::numeric_limits<double>::infinity();
    }
  }
  return worst;
}

}  // namespace tilegate::test
