// SPDX-License-Identifier: Apache-2.0
// Host memory: inputs are used where the file reader put them.
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

Result<Storage> Storage::create(const Case& c, const std::vector<OutputSpec>& outputs) {
  Storage storage;
  for (const auto& [name, tensor] : c.inputs) storage.inputs_.emplace(name, tensor.view());
  for (const OutputSpec& spec : outputs) {
    Result<io::HostTensor> tensor = make_output(c, spec);
    if (!tensor.ok()) return tensor.status();
    storage.outputs_.emplace(spec.name, tensor->view());
    storage.results_.emplace(spec.name, std::move(*tensor));
  }
  return storage;
}

Result<Workspace> Storage::workspace(std::size_t bytes) {
  const std::int64_t shape[] = {static_cast<std::int64_t>(bytes)};
  Result<io::HostTensor> memory = io::HostTensor::allocate(DType::kUInt8, shape);
  if (!memory.ok()) return memory.status();
  workspace_ = std::move(*memory);
  return Workspace{workspace_.data(), workspace_.bytes()};
}

}  // namespace tilegate::cli
