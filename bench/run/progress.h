// SPDX-License-Identifier: Apache-2.0
// "3/8 decode B16 .. flashinfer" on a terminal's stderr, and lines on stdout that do not mix with
// it.
#pragma once

#include <string>

namespace tilegate::bench {

class Progress {
 public:
  explicit Progress(std::size_t rows);
  ~Progress() { clear(); }

  void next_row(std::string name);
  void doing(const std::string& what);
  void print_line(const std::string& line);

 private:
  void clear();

  std::size_t rows_;
  std::size_t row_ = 0;
  std::string name_;
  bool shown_;
  bool drawn_ = false;
};

}  // namespace tilegate::bench
