// SPDX-License-Identifier: Apache-2.0
// Context: a device, its facts, a thread pool and library handles. Everything that outlives
// a call hangs off it; the library has no global mutable state. A Context may be used by one thread
// at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tilegate/status.h"
#include "tilegate/tensor.h"

namespace tilegate {

struct ContextOptions {
  Device device;        // where tensors of the calls live
  int num_threads = 0;  // CPU threads, at most and by default (0) all that this process may use
  // TILEGATE_DECODE_AUTO_CUDNN: 0 never, 1 whenever it can run, -1 the cost model decides.
  // Context::create() fills an unset value from the environment once.
  int decode_auto_cudnn = -2;
};

// One backend, as `tilegate info` prints it.
struct BackendInfo {
  std::string name;
  bool available = false;
  std::string detail;  // version and ISA, or why it is off
};

class Context {
 public:
  struct Impl;

  // Errors: invalid_argument (threads < 0, unknown device), cuda (no usable device).
  static Result<Context> create(const ContextOptions& options = {});

  Context(Context&&) noexcept;
  Context& operator=(Context&&) noexcept;
  ~Context();

  Device device() const;
  int num_threads() const;
  Impl& impl() { return *impl_; }
  const Impl& impl() const { return *impl_; }

 private:
  explicit Context(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Every backend this build knows, available or not.
std::vector<BackendInfo> backends();

// "0.1.0"
std::string version();

}  // namespace tilegate
