// SPDX-License-Identifier: Apache-2.0
// The flags of `tilegate bench attention` and `tilegate bench linear`.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/verbs.h"

namespace tilegate::cli {

// Adds the verb. `options` must outlive the app; its family is set once the verb was given.
void add_bench(CLI::App& app, BenchOptions& options);

}  // namespace tilegate::cli
