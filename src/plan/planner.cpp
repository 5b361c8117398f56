// SPDX-License-Identifier: Apache-2.0
// The planner: cheapest candidate that does not reject; earlier in the registry wins a tie.
#include "plan/planner.h"

#include <fmt/format.h>

#include "core/message.h"
#include "plan/frost.h"

namespace tilegate {
namespace {

bool serves_device(Backend backend, DeviceType device) {
  const bool host = backend == Backend::kReference || backend == Backend::kCpu;
  return host == (device == DeviceType::kCpu);
}

// Reasons that hold for every candidate of a backend, before it looks at the problem itself.
std::optional<std::string> general_rejection(const Candidate& candidate, const ProblemData& problem,
                                             const DeviceFacts& facts) {
  const Backend wanted = requested_backend(problem.op);
  if (wanted != Backend::kAuto && wanted != candidate.backend) {
    return fmt::format("backend \"{}\" was asked for", to_string(wanted));
  }
  if (!serves_device(candidate.backend, facts.type)) {
    return fmt::format("tensors are on the {}", facts.type == DeviceType::kCpu ? "CPU" : "GPU");
  }
  return std::nullopt;
}

// Nullopt for a kernel of another operation, which nobody wants to read about. Otherwise a general
// reason goes before the kernel's own.
std::optional<Verdict> judge(const Candidate& candidate, const ProblemData& problem,
                             const DeviceFacts& facts) {
  std::optional<std::string> own = candidate.reject(problem.op, facts);
  if (own == kOtherOperation) return std::nullopt;
  std::optional<std::string> general = general_rejection(candidate, problem, facts);
  if (general) return Verdict{&candidate, *std::move(general), 0.0};
  if (own) return Verdict{&candidate, *std::move(own), 0.0};
  return Verdict{&candidate, {}, candidate.cost_us(problem.op, facts)};
}

const Verdict* cheapest(std::span<const Verdict> verdicts, const Candidate* except) {
  const Verdict* best = nullptr;
  for (const Verdict& verdict : verdicts) {
    if (!verdict.rejection.empty() || verdict.candidate == except) continue;
    if (best == nullptr || verdict.cost_us < best->cost_us) best = &verdict;
  }
  return best;
}

std::string estimate(const Verdict& verdict) {
  if (verdict.cost_us >= kLastResortUs) return "last resort";
  if (verdict.cost_us <= kPreferredUs) return "preferred by decode_auto_cudnn, no estimate";
  return fmt::format("{:.1f} us estimated", verdict.cost_us);
}

// Estimates come from times on one GPU; on others they keep their order, roughly.
std::string calibration_note(const DeviceFacts& facts) {
  constexpr std::string_view kCalibrated = "NVIDIA H200";
  if (facts.name == kCalibrated) return fmt::format("costs: calibrated on {}\n", kCalibrated);
  return fmt::format("costs: uncalibrated, scaled from {} by SMs and bandwidth\n", kCalibrated);
}

Status no_candidate(const ProblemData& problem, std::span<const Verdict> verdicts) {
  const Backend wanted = requested_backend(problem.op);
  std::string reasons;
  for (const Verdict& verdict : verdicts) {
    // The other backends' "was asked for" would only hide the reason of the one that was.
    if (wanted != Backend::kAuto && verdict.candidate->backend != wanted) continue;
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", verdict.candidate->name,
                           verdict.rejection);
  }
  if (reasons.empty()) reasons = "it has no kernel for this operation in this build";
  return unsupported("backend \"{}\" cannot serve {}: {}", to_string(wanted), summary(problem.op),
                     reasons);
}

}  // namespace

std::string_view to_string(Backend backend) {
  switch (backend) {
    case Backend::kAuto:
      return "auto";
    case Backend::kReference:
      return "reference";
    case Backend::kCpu:
      return "cpu";
    case Backend::kCuda:
      return "cuda";
    case Backend::kCudnn:
      return "cudnn";
  }
  return "unknown";
}

Result<std::shared_ptr<const PlanData>> make_plan(std::shared_ptr<const ProblemData> problem,
                                                  const DeviceFacts& facts,
                                                  std::span<const Candidate* const> candidates) {
  auto plan = std::make_shared<PlanData>();
  plan->facts = facts;
  for (const Candidate* candidate : candidates) {
    std::optional<Verdict> verdict = judge(*candidate, *problem, facts);
    if (verdict) plan->verdicts.push_back(*std::move(verdict));
  }
  const Verdict* best = cheapest(plan->verdicts, nullptr);
  if (best == nullptr) return no_candidate(*problem, plan->verdicts);
  plan->chosen = best->candidate;
  plan->schedule = best->candidate->schedule(problem->op, facts);
  plan->problem = std::move(problem);
  return std::shared_ptr<const PlanData>(std::move(plan));
}

std::string PlanData::explain() const {
  std::string text = fmt::format("problem: {}\n", summary(problem->op));
  const Verdict* second = cheapest(verdicts, chosen);
  for (const Verdict& verdict : verdicts) {
    if (verdict.candidate != chosen) continue;
    text += fmt::format("chosen: {} ({})\n", chosen->name, estimate(verdict));
  }
  if (second != nullptr) {
    text += fmt::format("runner-up: {} ({})\n", second->candidate->name, estimate(*second));
  }
  for (const Verdict& verdict : verdicts) {
    if (verdict.rejection.empty()) continue;
    text += fmt::format("rejected: {}: {}\n", verdict.candidate->name, verdict.rejection);
  }
  if (std::string note = frost_note(problem->op, facts); !note.empty()) text += note + "\n";
  if (facts.type == DeviceType::kCuda) text += calibration_note(facts);
  if (!schedule.note.empty()) text += fmt::format("schedule: {}\n", schedule.note);
  text += fmt::format("workspace: {} bytes\n", schedule.workspace_bytes);
  text += fmt::format("bits: {}\n", schedule.pinned_bits ? "pinned" : "shape-dependent");
  return text;
}

}  // namespace tilegate
