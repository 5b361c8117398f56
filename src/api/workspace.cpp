// SPDX-License-Identifier: Apache-2.0
// Workspace memory: aligned host memory, or stream-ordered device memory.
#include "api/workspace.h"

#include <cstdlib>

#include "api/cuda_calls.h"
#include "core/message.h"

namespace tilegate {
Result<OwnedWorkspace> OwnedWorkspace::allocate(std::size_t bytes, Device device, void* stream) {
  OwnedWorkspace owned;
  if (bytes == 0) return owned;
  owned.device_ = device;
  owned.stream_ = stream;
  const std::size_t rounded =
      (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
  void* data = nullptr;
  if (device.type == DeviceType::kCpu) data = std::aligned_alloc(kWorkspaceAlignment, rounded);
  if (device.type == DeviceType::kCuda) {
    const Result<void*> allocated = cuda_allocate_async(rounded, stream);
    if (!allocated.ok()) return allocated.status();
    data = *allocated;
  }
  if (data == nullptr) {
    return Status(StatusCode::kOutOfWorkspace,
                  fmt::format("workspace of {} bytes must be allocatable, got no memory", bytes));
  }
  owned.view_ = {data, rounded};
  return owned;
}

OwnedWorkspace::~OwnedWorkspace() {
  if (view_.data == nullptr) return;
  if (device_.type == DeviceType::kCpu) std::free(view_.data);
  if (device_.type == DeviceType::kCuda) cuda_free_async(view_.data, stream_);
}

}  // namespace tilegate
