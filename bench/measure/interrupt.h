// SPDX-License-Identifier: Apache-2.0
// Turns the first SIGINT or SIGTERM into a flag for as long as it lives; a second one ends the
// program as usual.
#pragma once

#include <atomic>

namespace tilegate::bench {

class CatchInterrupts {
 public:
  CatchInterrupts();
  ~CatchInterrupts();
  CatchInterrupts(const CatchInterrupts&) = delete;
  CatchInterrupts& operator=(const CatchInterrupts&) = delete;

  const std::atomic<bool>& flag() const;
};

}  // namespace tilegate::bench
