// SPDX-License-Identifier: Apache-2.0
// Runs the rows of a benchmark: for each, our backends and the peers one after another, then all of
// them again in the opposite order, so that a steady drift of the machine favours nobody. A backend
// or peer that does not serve a row is one line with its reason.
#pragma once

#include <string>
#include <vector>

#include "bench/measure/timing.h"
#include "bench/rows/shapes.h"
#include "tilegate/attention.h"
#include "tilegate/status.h"

namespace tilegate::bench {

struct NamedBackend {
  std::string name;
  Backend backend = Backend::kAuto;
};

struct RunRequest {
  Device device;
  int threads = 0;
  std::vector<NamedBackend> backends;
  std::vector<std::string> peers;
  std::string peer_folder;  // empty: the source tree's
  double peer_timeout_s = 300.0;
  std::vector<Scope> scopes;
  Timer::Counts counts;
  std::string output;   // empty: no file
  std::string command;  // as it was typed
  std::vector<Row> rows;
};

enum class Ended { kComplete, kInterrupted };

// Prints a line an entry on stdout, and progress on a terminal's stderr. Errors: cuda, unsupported,
// io; what concerns one row only is a line of its own.
Result<Ended> run_benchmark(const RunRequest& request);

}  // namespace tilegate::bench
