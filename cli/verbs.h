// SPDX-License-Identifier: Apache-2.0
// The verbs of `tilegate`, one file each. Every verb prints what it has to say and returns the exit
// status.
#pragma once

#include <string>
#include <vector>

#include "cli/exit_code.h"

namespace tilegate::cli {

struct RunOptions {
  std::vector<std::string> cases;  // files and folders
  std::string backend = "auto";
  std::string out;  // a file for one case, a folder for several; empty: nothing is written
  bool check = false;
  std::vector<std::string> set;  // name=value
  int threads = 0;
};

struct ExplainOptions {
  std::string path;
  std::string backend = "auto";
  std::vector<std::string> set;
  int threads = 0;
};

ExitCode run(const RunOptions& options);
ExitCode explain(const ExplainOptions& options);
ExitCode info();

}  // namespace tilegate::cli
