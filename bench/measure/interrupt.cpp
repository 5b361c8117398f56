// SPDX-License-Identifier: Apache-2.0
// A signal handler reaches nothing but a lock-free flag of this file.
#include "bench/measure/interrupt.h"

#include <signal.h>

namespace tilegate::bench {
namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void set_flag(int) { interrupted = true; }

}  // namespace

CatchInterrupts::CatchInterrupts() {
  interrupted = false;
  struct sigaction action {};
  action.sa_handler = set_flag;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

CatchInterrupts::~CatchInterrupts() {
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
}

const std::atomic<bool>& CatchInterrupts::flag() const { return interrupted; }

}  // namespace tilegate::bench
