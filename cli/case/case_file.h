// SPDX-License-Identifier: Apache-2.0
// A case file in memory: one call, its inputs and, when present, the right answers. Loading checks
// everything that the file alone can tell; shapes and index values are checked by the library.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>

#include "cli/case/op_table.h"
#include "cli/case/params.h"
#include "io/host_tensor.h"
#include "tilegate/status.h"

namespace tilegate::cli {

struct Tolerance {
  double rel_rms = 0.0;
  double max_abs = 0.0;
};

using Tensors = std::map<std::string, io::HostTensor, std::less<>>;
using Views = std::map<std::string, TensorView, std::less<>>;

struct Case {
  std::string path;
  std::string name;  // the file's name without its extension
  const OpSpec* op = nullptr;
  Params params;
  std::optional<Tolerance> tolerance;                        // of tensors without their own
  std::map<std::string, Tolerance, std::less<>> tolerances;  // by output name
  Tensors inputs;
  Tensors expected;  // under the names of the outputs

  // An absent view when there is no such input.
  TensorView input(std::string_view tensor) const;
  std::optional<Tolerance> tolerance_of(std::string_view output) const;
};

// An absent view when there is none of that name.
TensorView find_view(const Views& views, std::string_view name);

// `overrides` are "name=value". Messages start with the path.
// Errors: io, invalid_argument, out_of_workspace.
Result<Case> load_case(const std::string& path, std::span<const std::string> overrides);

}  // namespace tilegate::cli
