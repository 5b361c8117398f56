// SPDX-License-Identifier: Apache-2.0
// Where and how a result was measured.
#pragma once

#include <string>

#include "bench/run/result.h"
#include "tilegate/tensor.h"

namespace tilegate::bench {

struct RunFacts {
  std::string command;
  Device device;
  int threads = 0;
};

// machine, cores, os, gpu, driver, runtime, backends, version, commit, date (UTC), command,
// threads; null where something cannot be known.
Json environment(const RunFacts& facts);

}  // namespace tilegate::bench
