// SPDX-License-Identifier: Apache-2.0
// A case made ready to run: loaded, described and with every index value checked, whatever backend
// will serve it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/case/call.h"
#include "cli/case/case_file.h"
#include "cli/case/outputs.h"
#include "tilegate/plan.h"

namespace tilegate::cli {

struct PreparedCase {
  Case c;
  std::vector<OutputSpec> outputs;
  Backend backend = Backend::kAuto;
  Device device;  // where the backend computes
  Problem problem;
};

struct PrepareOptions {
  std::string backend = "auto";
  std::span<const std::string> overrides;
  bool check = false;  // the expected tensors must fit
};

// Messages start with the path. Errors: io, invalid_argument, unsupported, out_of_workspace.
Result<PreparedCase> prepare_case(const std::string& path, const PrepareOptions& options);

// Errors: unsupported (the backend was asked for by name and is off, with the reason), and those of
// Context::create.
Result<Context> make_context(const std::string& backend, int threads);

// "<path>: <message>" on one line.
Status at_path(const std::string& path, const Status& status);

}  // namespace tilegate::cli
