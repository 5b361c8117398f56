// SPDX-License-Identifier: Apache-2.0
// On the CPU inputs are used where the file reader put them; on a GPU everything has a copy there.
#include "cli/case/storage.h"

#include <algorithm>
#include <limits>

namespace tilegate::cli {
namespace {

Result<io::HostTensor> make_output(const Case& c, const OutputSpec& spec) {
  if (spec.fill == Fill::kInput) return c.inputs.find(spec.name)->second.clone();
  Result<io::HostTensor> tensor = io::HostTensor::allocate(spec.dtype, spec.shape);
  if (tensor.ok() && spec.fill == Fill::kMinusInfinity) {
    std::fill_n(tensor->as<float>(), tensor->view().numel(),
                -std::numeric_limits<float>::infinity());
  }
  return tensor;
}

}  // namespace

Result<TensorView> Storage::place(const TensorView& host, std::size_t bytes) {
  if (device_.type == DeviceType::kCpu) return host;
  Result<DeviceBuffer> buffer = DeviceBuffer::allocate(device_, bytes);
  if (!buffer.ok()) return buffer.status();
  if (Status status = buffer->copy_from_host(host.data, bytes); !status.ok()) return status;
  TensorView view = host;
  view.data = buffer->data();
  view.device = device_;
  buffers_.push_back(std::move(*buffer));
  return view;
}

Result<Storage> Storage::create(const Case& c, const std::vector<OutputSpec>& outputs,
                                Device device) {
  Storage storage;
  storage.device_ = device;
  for (const auto& [name, tensor] : c.inputs) {
    Result<TensorView> view = storage.place(tensor.view(), tensor.bytes());
    if (!view.ok()) return view.status();
    storage.inputs_.emplace(name, *view);
  }
  for (const OutputSpec& spec : outputs) {
    Result<io::HostTensor> tensor = make_output(c, spec);
    if (!tensor.ok()) return tensor.status();
    Result<TensorView> view = storage.place(tensor->view(), tensor->bytes());
    if (!view.ok()) return view.status();
    storage.outputs_.emplace(spec.name, *view);
    storage.results_.emplace(spec.name, std::move(*tensor));
  }
  return storage;
}

Result<Workspace> Storage::workspace(std::size_t bytes) {
  Result<DeviceBuffer> memory = DeviceBuffer::allocate(device_, bytes);
  if (!memory.ok()) return memory.status();
  workspace_ = std::move(*memory);
  return Workspace{workspace_.data(), workspace_.bytes()};
}

Status Storage::fetch() {
  if (device_.type == DeviceType::kCpu) return Status();
  if (Status status = synchronize(device_); !status.ok()) return status;
  for (auto& [name, tensor] : results_) {
    const void* data = outputs_.find(name)->second.data;
    for (const DeviceBuffer& buffer : buffers_) {
      if (buffer.data() != data) continue;
      if (Status status = buffer.copy_to_host(tensor.data(), tensor.bytes()); !status.ok()) {
        return status;
      }
    }
  }
  return Status();
}

}  // namespace tilegate::cli
