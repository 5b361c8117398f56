// SPDX-License-Identifier: Apache-2.0
// Call: one call of the library as the laws see it: named tensors with a role, options, and how to
// describe it. The rest of this folder holds them.
#pragma once

#include <string>
#include <vector>

#include "tests/op/tensor/tensor.h"
#include "tilegate/plan.h"

namespace laws {

enum class Role { kIn, kOut };  // kOut: may be written (and read: pools, caches)

struct Argument {
  std::string name;
  Tensor* tensor;
  Role role;
};

class Call {
 public:
  virtual ~Call() = default;
  virtual std::vector<Argument> arguments() = 0;
  virtual tilegate::CallArgs args() const = 0;
  virtual tilegate::Result<tilegate::Problem> describe() const = 0;
  virtual void set_backend(tilegate::Backend backend) = 0;
};

}  // namespace laws
