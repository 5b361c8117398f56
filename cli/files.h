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

// Makes the folder for several outputs, and refuses what would overwrite an input or another
// output. Returns where each case's outputs go; empty without `out`. Errors: io.
Result<std::vector<std::string>> output_paths(const CaseFiles& files, const std::string& out);

}  // namespace tilegate::cli
