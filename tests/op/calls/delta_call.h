// SPDX-License-Identifier: Apache-2.0
// DeltaCall: one call of the delta-rule family with its tensors, and builders with sane defaults:
// unit keys, decays near one, an initial state, all dtypes free.
#pragma once

#include <cstdint>

#include "tests/op/calls/call.h"
#include "tests/op/harness/served.h"
#include "tests/op/tensor/random.h"

namespace laws {

struct DeltaShape {
  tilegate::DeltaRule rule = tilegate::DeltaRule::kGatedDeltaRule;
  Dims lens = lengths({37, 5});
  std::int64_t heads_q = 2;
  std::int64_t heads_k = 2;
  std::int64_t heads_v = 2;
  std::int64_t dim_k = 64;
  std::int64_t dim_v = 64;
  std::int64_t householder = 1;
  tilegate::DType dtype = tilegate::DType::kFloat32;
  tilegate::DType gate_dtype = tilegate::DType::kFloat32;
  tilegate::DType state_dtype = tilegate::DType::kFloat32;
  tilegate::DType index = tilegate::DType::kInt32;
  std::int64_t spare_rows = 3;  // poisoned tokens past the last offset
  std::uint64_t seed = 1;

  std::int64_t heads_o() const { return heads_q > heads_v ? heads_q : heads_v; }
};

class DeltaCall : public Call {
 public:
  tilegate::DeltaRule rule = tilegate::DeltaRule::kGatedDeltaRule;
  Dims lens;
  Tensor q, k, v, g, beta, w, a, b, a_log, dt_bias, cu_seqlens;
  Tensor initial_state, output_state, state_pool, output_state_pool;
  Tensor state_indices, output_state_indices, has_initial_state;
  Tensor state_checkpoints, checkpoint_cu_starts, checkpoint_state_indices;
  Tensor state_slots, num_accepted_tokens, record_k, record_d, record_decay;
  Tensor o;
  tilegate::DeltaRuleOptions options;

  std::int64_t tokens() const;  // within the offsets
  std::int64_t heads_o() const;
  std::int64_t dim_k() const { return q.shape().back(); }
  std::int64_t dim_v() const { return v.shape().back(); }
  bool decode() const { return rule == tilegate::DeltaRule::kGatedDeltaRuleDecode; }
  // [tokens, HO, V], also of a decode call.
  Tensor o_rows() const;
  Tensor o_of(std::size_t sequence) const;
  // New poisoned outputs: o, output_state, state_checkpoints.
  void reset_outputs();
  // Replaces initial_state and output_state by a pool with one slot a sequence, in a random order,
  // among `spare` poisoned slots. In place.
  void use_pool(std::int64_t spare = 2, std::uint64_t seed = 3);
  // Room for every checkpoint of every sequence, poisoned.
  void add_checkpoints(std::int64_t every, tilegate::CheckpointPosition position,
                       tilegate::DType dtype);
  std::int64_t checkpoints_of(std::size_t sequence) const;

  std::vector<Argument> arguments() override;
  tilegate::CallArgs args() const override;
  tilegate::Result<tilegate::Problem> describe() const override;
  void set_backend(tilegate::Backend backend) override { options.backend = backend; }
};

// Any rule. Decode makes q, k, v [B, T, H, D] with T = lens[0] (all equal) and raw gates a, b.
DeltaCall make_delta(const DeltaShape& shape);
// Tokens [begin, end) of one sequence as a call of its own, from its initial state; outputs fresh.
DeltaCall part_of(const DeltaCall& call, std::size_t sequence, std::int64_t begin,
                  std::int64_t end);
std::string label(const DeltaCall& call);

inline constexpr tilegate::DeltaRule kChunkRules[] = {
    tilegate::DeltaRule::kGatedDeltaRule, tilegate::DeltaRule::kGatedDeltaRule2,
    tilegate::DeltaRule::kGatedDeltaProduct, tilegate::DeltaRule::kKda};

}  // namespace laws
