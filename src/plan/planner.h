// SPDX-License-Identifier: Apache-2.0
// Chooses among candidates: reject, cost, schedule, explain. Pure and deterministic: the same
// problem and device facts give the same plan.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "plan/candidate.h"

namespace tilegate {

// What became of one candidate.
struct Verdict {
  const Candidate* candidate = nullptr;
  std::string rejection;  // empty: it could serve
  double cost_us = 0.0;
};

struct PlanData {
  std::shared_ptr<const ProblemData> problem;
  DeviceFacts facts;
  const Candidate* chosen = nullptr;
  Schedule schedule;
  std::vector<Verdict> verdicts;  // in registry order

  std::string explain() const;
};

std::string_view to_string(Backend backend);

// Errors: unsupported, listing the reason of every candidate that was considered.
Result<std::shared_ptr<const PlanData>> make_plan(std::shared_ptr<const ProblemData> problem,
                                                  const DeviceFacts& facts,
                                                  std::span<const Candidate* const> candidates);

}  // namespace tilegate
