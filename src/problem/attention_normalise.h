// SPDX-License-Identifier: Apache-2.0
// From the arguments of the attention-side calls to their Operation: every reason a call is
// malformed, checked in the order the functions are written.
#pragma once

#include "problem/problem.h"

namespace tilegate {

Result<Operation> normalise_attention(const PrefillRaggedArgs& args,
                                      const AttentionOptions& options);
Result<Operation> normalise_attention(const PrefillPagedArgs& args,
                                      const AttentionOptions& options);
Result<Operation> normalise_attention(const DecodePagedArgs& args, const AttentionOptions& options);
Result<Operation> normalise_append(const AppendPagedKvArgs& args, const AppendOptions& options);
Result<Operation> normalise_merge(const MergeStatesArgs& args, const MergeOptions& options);

// Index values of host tensors.
Status check_attention_values(const AttentionProblem& call);
Status check_append_values(const AppendProblem& call);

}  // namespace tilegate
