// SPDX-License-Identifier: Apache-2.0
// One-shot calls: describe, plan, allocate the workspace, run.
#include "api/cuda_calls.h"
#include "api/workspace.h"
#include "tilegate/plan.h"

namespace tilegate {
namespace {

Status run_once(Context& context, const Result<Problem>& problem, const CallArgs& args,
                void* stream) {
  if (!problem.ok()) return problem.status();
  Result<Plan> made = plan(*problem, context);
  if (!made.ok()) return made.status();
  return made->run_once(context, args, stream);
}

}  // namespace

Status Plan::run_once(Context& context, const CallArgs& args, void* stream) const {
  const DeviceScope scope(context.device());  // of the workspace too
  Result<OwnedWorkspace> workspace =
      OwnedWorkspace::allocate(workspace_bytes(), context.device(), stream);
  if (!workspace.ok()) return workspace.status();
  return run(context, args, workspace->view(), stream);
}

Status batch_prefill_ragged(Context& context, const PrefillRaggedArgs& args,
                            const AttentionOptions& options, void* stream) {
  return run_once(context, describe(args, options), args, stream);
}
Status batch_prefill_paged(Context& context, const PrefillPagedArgs& args,
                           const AttentionOptions& options, void* stream) {
  return run_once(context, describe(args, options), args, stream);
}
Status batch_decode_paged(Context& context, const DecodePagedArgs& args,
                          const AttentionOptions& options, void* stream) {
  return run_once(context, describe(args, options), args, stream);
}
Status append_paged_kv(Context& context, const AppendPagedKvArgs& args,
                       const AppendOptions& options, void* stream) {
  return run_once(context, describe(args, options), args, stream);
}
Status merge_states(Context& context, const MergeStatesArgs& args, const MergeOptions& options,
                    void* stream) {
  return run_once(context, describe(args, options), args, stream);
}
Status chunk_gated_delta_rule(Context& context, const DeltaRuleArgs& args,
                              const DeltaRuleOptions& options, void* stream) {
  return run_once(context, describe(DeltaRule::kGatedDeltaRule, args, options), args, stream);
}
Status chunk_gated_delta_rule2(Context& context, const DeltaRuleArgs& args,
                               const DeltaRuleOptions& options, void* stream) {
  return run_once(context, describe(DeltaRule::kGatedDeltaRule2, args, options), args, stream);
}
Status chunk_gated_delta_product(Context& context, const DeltaRuleArgs& args,
                                 const DeltaRuleOptions& options, void* stream) {
  return run_once(context, describe(DeltaRule::kGatedDeltaProduct, args, options), args, stream);
}
Status recurrent_kda(Context& context, const DeltaRuleArgs& args, const DeltaRuleOptions& options,
                     void* stream) {
  return run_once(context, describe(DeltaRule::kKda, args, options), args, stream);
}
Status gated_delta_rule_decode(Context& context, const DeltaRuleArgs& args,
                               const DeltaRuleOptions& options, void* stream) {
  return run_once(context, describe(DeltaRule::kGatedDeltaRuleDecode, args, options), args, stream);
}
Status commit(Context& context, const CommitArgs& args, const CommitOptions& options,
              void* stream) {
  return run_once(context, describe(args, options), args, stream);
}

}  // namespace tilegate
