// SPDX-License-Identifier: Apache-2.0
// Any call as plain data.
#pragma once

#include <string>
#include <variant>

#include "problem/attention.h"
#include "problem/linear.h"
#include "tilegate/plan.h"

namespace tilegate {

using Operation =
    std::variant<AttentionProblem, AppendProblem, MergeProblem, LinearProblem, CommitProblem>;

using CallOptions =
    std::variant<AttentionOptions, AppendOptions, MergeOptions, DeltaRuleOptions, CommitOptions>;

struct ProblemData {
  Operation op;  // every data pointer is null
  Device device;
  CallOptions options;
  DeltaRule rule = DeltaRule::kGatedDeltaRule;  // of delta-rule calls
};

// The pure heart of describe(): the operation with the caller's pointers still in it.
Result<Operation> normalise(const CallArgs& args, const CallOptions& options, DeltaRule rule);

// Removes every pointer.
Operation without_pointers(Operation op);

// Sets `device` to where every present tensor lives. Errors: tensors on different devices.
Result<Device> common_device(const Operation& op);

// A sentence naming the first tensor whose shape, strides or dtype differ, or nullopt if the call
// is the one that was planned.
std::optional<std::string> first_difference(const Operation& planned, const Operation& call);

// Tensors with elements have memory: all, or those of indices and flags. Errors: the first without.
Status check_pointers(const Operation& call);
Status check_index_pointers(const Operation& call);

// Index values of host tensors: offsets, page ids, lengths, slots.
Status check_values(const Operation& call);

Backend requested_backend(const Operation& op);
bool wants_batch_invariance(const Operation& op);

// The public call of a rule: "chunk_gated_delta_rule".
std::string_view call_name(DeltaRule rule);

// "batch_prefill_ragged bf16 B3 Tq70 H12/4 D128"
std::string summary(const Operation& op);

}  // namespace tilegate
