// SPDX-License-Identifier: Apache-2.0
// What a launch may use besides its arguments. Owned by Context.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "core/thread_pool.h"
#include "tilegate/tensor.h"

namespace tilegate {

struct Resources {
  explicit Resources(int num_threads) : pool(num_threads) {}
  Device device;
  ThreadPool pool;
  // State a backend keeps between calls (library handles, graph caches), indexed by Backend. Made
  // by the backend on first use, destroyed with the Context.
  static constexpr std::size_t kBackends = 5;
  std::array<std::shared_ptr<void>, kBackends> backend_state;
};

}  // namespace tilegate
