// SPDX-License-Identifier: Apache-2.0
// The line is redrawn in place; without a terminal nothing of it is written.
#include "bench/run/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace tilegate::bench {

Progress::Progress(std::size_t rows) : rows_(rows), shown_(isatty(STDERR_FILENO) != 0) {}

void Progress::next_row(std::string name) {
  ++row_;
  name_ = std::move(name);
}

void Progress::doing(const std::string& what) {
  if (!shown_) return;
  fmt::print(stderr, "\r\x1b[K{}/{} {}: {}", row_, rows_, name_, what);
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::print_line(const std::string& line) {
  clear();
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

void Progress::clear() {
  if (!drawn_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace tilegate::bench
