// SPDX-License-Identifier: Apache-2.0
// From the arguments of a delta-rule call to a LinearProblem, and of commit to a CommitProblem:
// every reason such a call is malformed, in a fixed order. `normalise_*` looks at shapes, strides,
// dtypes and options only; `check_*_values` reads the index tensors, which must be in host memory.
#pragma once

#include "problem/problem.h"

namespace tilegate {

// Order of checks: options of the op; q; cu_seqlens and max_seqlen; k, v, heads; o; gates, beta, w;
// states and their indices; checkpoints; slots, accepted counts and records.
// Errors: invalid_argument.
Result<Operation> normalise_linear(DeltaRule rule, const DeltaRuleArgs& args,
                                   const DeltaRuleOptions& options);

// Order of checks: state_pool, record_k and num_householder, record_d, record_decay,
// state_indices, accepted.
// Errors: invalid_argument.
Result<Operation> normalise_commit(const CommitArgs& args, const CommitOptions& options);

// Offsets, lengths, slots, checkpoint rows and accepted counts; every row has one writer, and no
// sequence reads a row that another one writes in place. Errors: invalid_argument.
Status check_linear_values(const LinearProblem& problem);
Status check_commit_values(const CommitProblem& problem);

}  // namespace tilegate
