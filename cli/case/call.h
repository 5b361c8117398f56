// SPDX-License-Identifier: Apache-2.0
// From a case to the arguments and options of the library's call.
#pragma once

#include <variant>

#include "cli/case/case_file.h"
#include "tilegate/plan.h"

namespace tilegate::cli {

struct Call {
  CallArgs args;
  std::variant<AttentionOptions, MergeOptions, DeltaRuleOptions> options;
  DeltaRule rule = DeltaRule::kGatedDeltaRule;
};

// `inputs` and `outputs` hold the tensors where the call runs. state_pool is read and written in
// place, so the output of that name wins.
Call make_call(const Case& c, const Views& inputs, const Views& outputs, Backend backend);

// Errors: invalid_argument, unsupported.
Result<Problem> describe_call(const Call& call);

// page_size is said twice, by the parameter and by the cache. Errors: invalid_argument.
Status check_page_size(const Case& c);

}  // namespace tilegate::cli
