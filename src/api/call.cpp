// SPDX-License-Identifier: Apache-2.0
// describe, plan, run: the three lines that every public call is made of.
#include <cstdint>
#include <exception>

#include "api/context_impl.h"
#include "api/cuda_calls.h"
#include "api/registry.h"
#include "core/message.h"
#include "plan/planner.h"
#include "tilegate/plan.h"

namespace tilegate {
namespace {

Result<Problem> make_problem(const CallArgs& args, CallOptions options, DeltaRule rule) {
  Result<Operation> op = normalise(args, options, rule);
  if (!op.ok()) return op.status();
  Result<Device> device = common_device(*op);
  if (!device.ok()) return device.status();
  auto data = std::make_shared<ProblemData>();
  data->op = without_pointers(*std::move(op));
  data->device = *device;
  data->options = std::move(options);
  data->rule = rule;
  return Problem(std::move(data));
}

// Normalises the args again and checks that they are the planned call.
Result<Operation> rebind(const ProblemData& problem, const CallArgs& args) {
  Result<Operation> call = normalise(args, problem.options, problem.rule);
  if (!call.ok()) return call.status();
  if (std::optional<std::string> difference = first_difference(problem.op, *call)) {
    return Status(StatusCode::kInvalidArgument, *difference);
  }
  return call;
}

Status check_workspace(std::size_t needed, Workspace workspace) {
  if (needed == 0) return {};
  if (workspace.data == nullptr || workspace.bytes < needed) {
    return Status(StatusCode::kOutOfWorkspace,
                  fmt::format("workspace must be at least {} bytes, got {}", needed,
                              workspace.data == nullptr ? 0 : workspace.bytes));
  }
  if (reinterpret_cast<std::uintptr_t>(workspace.data) % kWorkspaceAlignment != 0) {
    return invalid("workspace must be aligned to {} bytes, got address {}", kWorkspaceAlignment,
                   fmt::ptr(workspace.data));
  }
  return {};
}

// The context that runs may be another one than the context that planned, but not a larger one:
// scratch memory is cut for the planned number of threads.
Status check_context(const PlanData& plan, const Context& context) {
  if (!(plan.problem->device == context.device())) {
    return invalid("context must be on the device that was planned, got another one");
  }
  if (plan.facts.type == DeviceType::kCpu && plan.facts.num_threads < context.num_threads()) {
    return invalid("context must have at most the {} threads that were planned, got {}",
                   plan.facts.num_threads, context.num_threads());
  }
  return {};
}

// Checks and kernels may hold lists of their own; an error of the standard library stays inside.
Status launch_guarded(const Candidate& candidate, const Launch& launch) {
  try {
    if (launch.facts.type == DeviceType::kCpu) TILEGATE_RETURN_IF_ERROR(check_values(launch.call));
    return candidate.launch(launch);
  } catch (const std::exception& error) {  // bad_alloc or length_error
    return Status(
        StatusCode::kOutOfWorkspace,
        fmt::format("memory of {} must be allocatable, got {}", candidate.name, error.what()));
  }
}

}  // namespace

Result<Problem> describe(const PrefillRaggedArgs& args, const AttentionOptions& options) {
  return make_problem(args, options, {});
}
Result<Problem> describe(const PrefillPagedArgs& args, const AttentionOptions& options) {
  return make_problem(args, options, {});
}
Result<Problem> describe(const DecodePagedArgs& args, const AttentionOptions& options) {
  return make_problem(args, options, {});
}
Result<Problem> describe(const AppendPagedKvArgs& args, const AppendOptions& options) {
  return make_problem(args, options, {});
}
Result<Problem> describe(const MergeStatesArgs& args, const MergeOptions& options) {
  return make_problem(args, options, {});
}
Result<Problem> describe(DeltaRule rule, const DeltaRuleArgs& args,
                         const DeltaRuleOptions& options) {
  return make_problem(args, options, rule);
}
Result<Problem> describe(const CommitArgs& args, const CommitOptions& options) {
  return make_problem(args, options, {});
}

std::string Problem::summary() const { return tilegate::summary(data_->op); }

Result<Plan> plan(const Problem& problem, Context& context) {
  const Device device = problem.data().device;
  if (!(device == context.device())) {
    return invalid("tensors must be on the context's device {}, got {}",
                   describe_device(context.device()), describe_device(device));
  }
  auto data = make_plan(problem.shared(), context.impl().facts, all_candidates());
  if (!data.ok()) return data.status();
  const PlanData& made = **data;
  if (made.chosen->prepare == nullptr || requested_backend(made.problem->op) == Backend::kAuto) {
    return Plan(*std::move(data));
  }
  const DeviceScope scope(device);
  Result<Schedule> schedule =
      made.chosen->prepare({made.problem->op, made.schedule, made.facts, context.impl().resources});
  if (!schedule.ok()) return schedule.status();
  auto prepared = std::make_shared<PlanData>(made);
  prepared->schedule = *std::move(schedule);
  return Plan(std::shared_ptr<const PlanData>(std::move(prepared)));
}

Status check_values(const Problem& problem, const CallArgs& args) {
  Result<Operation> call = rebind(problem.data(), args);
  if (!call.ok()) return call.status();
  TILEGATE_RETURN_IF_ERROR(check_index_pointers(*call));
  return check_values(*call);
}

std::size_t Plan::workspace_bytes() const { return data_->schedule.workspace_bytes; }
std::string Plan::explain() const { return data_->explain(); }
std::string Plan::kernel() const { return std::string(data_->chosen->name); }
std::string Plan::backend() const { return std::string(to_string(data_->chosen->backend)); }

Status Plan::run(Context& context, const CallArgs& args, Workspace workspace, void* stream) const {
  Result<Operation> call = rebind(*data_->problem, args);
  if (!call.ok()) return call.status();
  TILEGATE_RETURN_IF_ERROR(check_pointers(*call));
  TILEGATE_RETURN_IF_ERROR(check_context(*data_, context));
  TILEGATE_RETURN_IF_ERROR(check_workspace(workspace_bytes(), workspace));
  const DeviceScope scope(context.device());
  return launch_guarded(*data_->chosen,
                        {*call, data_->schedule, data_->facts, context.impl().resources,
                         static_cast<std::byte*>(workspace.data), stream});
}

}  // namespace tilegate
