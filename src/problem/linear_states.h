// SPDX-License-Identifier: Apache-2.0
// The parts of a delta-rule call that are not tokens: states, checkpoints, speculation. Each
// function checks its arguments and fills its fields of a problem whose sizes are already known.
// Errors: invalid_argument.
#pragma once

#include "core/layout.h"
#include "problem/linear.h"
#include "tilegate/status.h"

namespace tilegate {

// `tensor` must be absent; `reason` says why: "without state_pool".
Status require_absent(const Named& tensor, std::string_view reason);

// A state tensor [rows, HO, V, K] of any floating dtype, K contiguous; rows < 0 accepts any number.
Status check_state(const Named& state, std::int64_t rows, const LinearProblem& p);

// A contiguous int32 or int64 tensor with `entries` entries.
Status check_index(const Named& index, std::int64_t entries);

Status fill_states(const DeltaRuleArgs& args, const DeltaRuleOptions& options, LinearProblem& p);
Status fill_checkpoints(const DeltaRuleArgs& args, const DeltaRuleOptions& options,
                        LinearProblem& p);
// `columns` is the declared bound of tokens a sequence: the second dimension of slots and records.
Status fill_speculation(const DeltaRuleArgs& args, std::int64_t columns, LinearProblem& p);

}  // namespace tilegate
