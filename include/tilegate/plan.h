// SPDX-License-Identifier: Apache-2.0
// describe -> plan -> run. `describe` and `plan` are pure: they read shapes and options, never
// device memory, a clock or the environment. A Plan is an immutable value that holds no pointers to
// tensors, so buffers may move between runs as long as shapes, strides and dtypes stay.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <variant>

#include "tilegate/attention.h"
#include "tilegate/context.h"
#include "tilegate/linear.h"
#include "tilegate/status.h"

namespace tilegate {

struct ProblemData;  // src/problem/problem.h
struct PlanData;     // src/plan/planner.h

// A call as plain data: validated, normalised, without pointers.
class Problem {
 public:
  explicit Problem(std::shared_ptr<const ProblemData> data) : data_(std::move(data)) {}
  const ProblemData& data() const { return *data_; }
  const std::shared_ptr<const ProblemData>& shared() const { return data_; }
  // One line: op and shape.
  std::string summary() const;

 private:
  std::shared_ptr<const ProblemData> data_;
};

using CallArgs = std::variant<PrefillRaggedArgs, PrefillPagedArgs, DecodePagedArgs,
                              AppendPagedKvArgs, MergeStatesArgs, DeltaRuleArgs, CommitArgs>;

// Errors: invalid_argument with a sentence that names the argument.
Result<Problem> describe(const PrefillRaggedArgs& args, const AttentionOptions& options = {});
Result<Problem> describe(const PrefillPagedArgs& args, const AttentionOptions& options = {});
Result<Problem> describe(const DecodePagedArgs& args, const AttentionOptions& options = {});
Result<Problem> describe(const AppendPagedKvArgs& args, const AppendOptions& options = {});
Result<Problem> describe(const MergeStatesArgs& args, const MergeOptions& options = {});
Result<Problem> describe(DeltaRule rule, const DeltaRuleArgs& args,
                         const DeltaRuleOptions& options = {});
Result<Problem> describe(const CommitArgs& args, const CommitOptions& options = {});

inline constexpr std::size_t kWorkspaceAlignment = 256;  // bytes

// Scratch memory on the context's device, aligned to kWorkspaceAlignment. It need not be cleared.
struct Workspace {
  void* data = nullptr;
  std::size_t bytes = 0;
};

class Plan {
 public:
  explicit Plan(std::shared_ptr<const PlanData> data) : data_(std::move(data)) {}

  std::size_t workspace_bytes() const;
  // The chosen kernel ("cpu.flash"), the runner-up, every rejection with its reason, the schedule,
  // and `bits: pinned` or `bits: shape-dependent`.
  std::string explain() const;
  // Name of the chosen kernel, and of its backend ("cpu").
  std::string kernel() const;
  std::string backend() const;

  // Runs on `stream` (a cudaStream_t; ignored on the CPU, where the call returns when done). The
  // arguments must have the shapes, strides and dtypes that were planned.
  // Errors: invalid_argument, out_of_workspace, cuda, cudnn.
  Status run(Context& context, const CallArgs& args, Workspace workspace,
             void* stream = nullptr) const;
  // The same with a workspace that lives as long as the call (on a GPU: in stream order).
  Status run_once(Context& context, const CallArgs& args, void* stream = nullptr) const;

  const PlanData& data() const { return *data_; }

 private:
  std::shared_ptr<const PlanData> data_;
};

// Errors: unsupported, with the reason of every backend that was considered.
Result<Plan> plan(const Problem& problem, Context& context);

// Checks index values (offsets, page ids, slots, lengths) of tensors in host memory. On the CPU
// every run does it; for a GPU it is the caller's promise, and this checks a host copy.
// Errors: invalid_argument.
Status check_values(const Problem& problem, const CallArgs& args);

// One-shot calls: describe, plan, allocate the workspace, run.
Status batch_prefill_ragged(Context& context, const PrefillRaggedArgs& args,
                            const AttentionOptions& options = {}, void* stream = nullptr);
Status batch_prefill_paged(Context& context, const PrefillPagedArgs& args,
                           const AttentionOptions& options = {}, void* stream = nullptr);
Status batch_decode_paged(Context& context, const DecodePagedArgs& args,
                          const AttentionOptions& options = {}, void* stream = nullptr);
Status append_paged_kv(Context& context, const AppendPagedKvArgs& args,
                       const AppendOptions& options = {}, void* stream = nullptr);
Status merge_states(Context& context, const MergeStatesArgs& args, const MergeOptions& options = {},
                    void* stream = nullptr);
Status chunk_gated_delta_rule(Context& context, const DeltaRuleArgs& args,
                              const DeltaRuleOptions& options = {}, void* stream = nullptr);
Status chunk_gated_delta_rule2(Context& context, const DeltaRuleArgs& args,
                               const DeltaRuleOptions& options = {}, void* stream = nullptr);
Status chunk_gated_delta_product(Context& context, const DeltaRuleArgs& args,
                                 const DeltaRuleOptions& options = {}, void* stream = nullptr);
Status recurrent_kda(Context& context, const DeltaRuleArgs& args,
                     const DeltaRuleOptions& options = {}, void* stream = nullptr);
Status gated_delta_rule_decode(Context& context, const DeltaRuleArgs& args,
                               const DeltaRuleOptions& options = {}, void* stream = nullptr);
Status commit(Context& context, const CommitArgs& args, const CommitOptions& options = {},
              void* stream = nullptr);

}  // namespace tilegate
