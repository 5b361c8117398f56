// SPDX-License-Identifier: Apache-2.0
// Where the tensors of one call live while it runs. The case keeps its inputs; outputs are made
// here, so an input that is written in place (a state pool) can still be compared with.
#pragma once

#include <cstddef>
#include <vector>

#include "cli/case/case_file.h"
#include "cli/case/outputs.h"
#include "tilegate/device_memory.h"
#include "tilegate/plan.h"

namespace tilegate::cli {

class Storage {
 public:
  // The case must outlive the storage. Errors: out_of_workspace, invalid_argument, cuda.
  static Result<Storage> create(const Case& c, const std::vector<OutputSpec>& outputs,
                                Device device);

  // On the device of the call.
  const Views& inputs() const { return inputs_; }
  const Views& outputs() const { return outputs_; }
  // Errors: out_of_workspace.
  Result<Workspace> workspace(std::size_t bytes);

  // Waits for the call and brings the outputs back. Errors: cuda.
  Status fetch();
  // Host copies of the outputs, by name, after fetch().
  const Tensors& results() const { return results_; }

 private:
  // The view of a host tensor's copy on the device, or of itself on the CPU.
  Result<TensorView> place(const TensorView& host, std::size_t bytes);

  Device device_;
  std::vector<DeviceBuffer> buffers_;
  Views inputs_;
  Views outputs_;
  Tensors results_;
  DeviceBuffer workspace_;
};

}  // namespace tilegate::cli
