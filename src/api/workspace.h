// SPDX-License-Identifier: Apache-2.0
// Scratch memory of a one-shot call, freed when the call returns (on a GPU: in stream order).
#pragma once

#include <cstddef>
#include <utility>

#include "tilegate/plan.h"

namespace tilegate {

class OwnedWorkspace {
 public:
  // Errors: out_of_workspace when the memory cannot be had; cuda.
  static Result<OwnedWorkspace> allocate(std::size_t bytes, Device device, void* stream);

  OwnedWorkspace(OwnedWorkspace&& other) noexcept { *this = std::move(other); }
  OwnedWorkspace& operator=(OwnedWorkspace&& other) noexcept {
    std::swap(view_, other.view_);
    std::swap(device_, other.device_);
    std::swap(stream_, other.stream_);
    return *this;
  }
  ~OwnedWorkspace();

  Workspace view() const { return view_; }

 private:
  OwnedWorkspace() = default;
  Workspace view_;
  Device device_;
  void* stream_ = nullptr;
};

}  // namespace tilegate
