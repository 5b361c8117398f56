// SPDX-License-Identifier: Apache-2.0
// `tilegate info`: version, threads, backends and why one is off, environment variables read.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "cli/verbs.h"
#include "tilegate/context.h"

namespace tilegate::cli {

ExitCode info() {
  constexpr const char* kVariable = "TILEGATE_DECODE_AUTO_CUDNN";
  Result<Context> context = Context::create();
  if (!context.ok()) {
    fmt::print(stderr, "tilegate: {}\n", context.status().to_string());
    return exit_code(context.status().code());
  }
  fmt::print("tilegate {}\n", version());
  fmt::print("threads {}\n", context->num_threads());
  fmt::print("backends\n");
  for (const BackendInfo& backend : backends()) {
    fmt::print("  {:<10} {:<4} {}\n", backend.name, backend.available ? "on" : "off",
               backend.detail);
  }
  const char* value = std::getenv(kVariable);
  fmt::print("environment\n  {}={} (0 never, 1 whenever it can run, unset: the cost model)\n",
             kVariable, value != nullptr ? value : "");
  return ExitCode::kOk;
}

}  // namespace tilegate::cli
