// SPDX-License-Identifier: Apache-2.0
// Which files a command line names, and where outputs go.
#pragma once

#include <string>
#include <vector>

#include "tilegate/status.h"

namespace tilegate::cli {

struct CaseFiles {
  std::vector<std::string> paths;  // folders replaced by their *.safetensors, sorted by name
  bool several = false;            // more than one file, or a folder was named
};

// Errors: io (a folder that cannot be listed, or holds no case).
Result<CaseFiles> find_case_files(const std::vector<std::string>& arguments);

// One case goes to the file `out`, or into it where it is a folder or ends in a slash; several go
// to a folder, which is made. Refuses what would overwrite an input or another output.
// Returns where each case's outputs go; empty without `out`. Errors: io.
Result<std::vector<std::string>> output_paths(const CaseFiles& files, const std::string& out);

}  // namespace tilegate::cli
