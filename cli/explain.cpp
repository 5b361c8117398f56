// SPDX-License-Identifier: Apache-2.0
// `tilegate explain CASE`: the kernel a case gets, the runner-up, and every rejection.
#include <fmt/format.h>

#include <cstdio>

#include "cli/case/prepare.h"
#include "cli/verbs.h"

namespace tilegate::cli {
namespace {

ExitCode fail(const Status& status) {
  fmt::print(stderr, "{}\n", status.message());
  return exit_code(status.code());
}

}  // namespace

ExitCode explain(const ExplainOptions& options) {
  Result<PreparedCase> prepared =
      prepare_case(options.path, {options.backend, options.set, /*check=*/false});
  if (!prepared.ok()) return fail(prepared.status());
  Result<Context> context = make_context(options.backend, options.threads);
  if (!context.ok()) return fail(at_path(options.path, context.status()));
  Result<Plan> chosen = plan(prepared->problem, *context);
  if (!chosen.ok()) return fail(at_path(options.path, chosen.status()));
  std::string text = chosen->explain();
  while (!text.empty() && text.back() == '\n') text.pop_back();
  fmt::print("{}\n", text);
  return ExitCode::kOk;
}

}  // namespace tilegate::cli
