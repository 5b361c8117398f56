// SPDX-License-Identifier: Apache-2.0
// Runs the program as a user does and keeps what it said.
#pragma once

#include <string>
#include <vector>

namespace tilegate::cli::testing {

struct Said {
  int code = -1;  // exit status; -1 when it did not exit by itself
  std::string out;
  std::string err;
};

// Arguments go to the program as they are, without a shell.
Said run_program(const std::vector<std::string>& arguments);

// Lines of a text, each without its newline.
std::vector<std::string> lines(const std::string& text);

// A fresh empty folder, named after the current test.
std::string fresh_folder();

}  // namespace tilegate::cli::testing
