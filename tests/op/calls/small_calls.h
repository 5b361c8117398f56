// SPDX-License-Identifier: Apache-2.0
// The calls without a recurrence or a softmax of their own: append_paged_kv, merge_states, commit.
#pragma once

#include "tests/op/calls/call.h"

namespace laws {

class AppendCall : public Call {
 public:
  Tensor k, v, batch_indices, positions, k_cache, v_cache, kv_cache;
  Tensor kv_indptr, kv_indices, kv_last_page_len, block_tables, kv_lens;
  tilegate::AppendOptions options;

  std::vector<Argument> arguments() override;
  tilegate::CallArgs args() const override;
  tilegate::Result<tilegate::Problem> describe() const override;
  void set_backend(tilegate::Backend backend) override { options.backend = backend; }
};

class MergeCall : public Call {
 public:
  Tensor v, s, o, lse;
  tilegate::MergeOptions options;

  std::vector<Argument> arguments() override;
  tilegate::CallArgs args() const override;
  tilegate::Result<tilegate::Problem> describe() const override;
  void set_backend(tilegate::Backend backend) override { options.backend = backend; }
};

class CommitCall : public Call {
 public:
  Tensor state_pool, state_indices, record_k, record_d, record_decay, accepted;
  tilegate::CommitOptions options;

  std::vector<Argument> arguments() override;
  tilegate::CallArgs args() const override;
  tilegate::Result<tilegate::Problem> describe() const override;
  void set_backend(tilegate::Backend backend) override { options.backend = backend; }
};

// Allocates o and lse for parts v [N, P, H, D] and s [N, P, H].
MergeCall make_merge(Tensor v, Tensor s);

}  // namespace laws
