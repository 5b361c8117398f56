// SPDX-License-Identifier: Apache-2.0
// Calls an installed tilegate twice and compares with plain loops. Exit status 0 when both agree.
#include <cstdio>

#include "checks.h"

namespace {

constexpr double kTolerance = 1e-5;  // fp32 arithmetic on values near 1

bool passes(const char* name, const tilegate::Result<double>& error) {
  if (!error.ok()) {
    std::printf("%s: %s\n", name, error.status().to_string().c_str());
    return false;
  }
  const bool good = *error <= kTolerance;
  std::printf("%s: %s, largest error %.1e\n", name, good ? "ok" : "wrong", *error);
  return good;
}

}  // namespace

int main() {
  std::printf("tilegate %s\n", tilegate::version().c_str());
  tilegate::Result<tilegate::Context> context = tilegate::Context::create();
  if (!context.ok()) {
    std::printf("%s\n", context.status().to_string().c_str());
    return 1;
  }
  const bool attention = passes("batch_prefill_ragged", attention_error(*context));
  const bool delta_rule = passes("chunk_gated_delta_rule", delta_rule_error(*context));
  return attention && delta_rule ? 0 : 1;
}
