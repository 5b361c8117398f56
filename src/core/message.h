// SPDX-License-Identifier: Apache-2.0
// Builders for the one-sentence errors: "<argument> must be <wanted>, got <given>".
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "tilegate/status.h"
#include "tilegate/tensor.h"

namespace tilegate {

template <class... Args>
Status invalid(fmt::format_string<Args...> format, Args&&... args) {
  return Status(StatusCode::kInvalidArgument, fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
Status unsupported(fmt::format_string<Args...> format, Args&&... args) {
  return Status(StatusCode::kUnsupported, fmt::format(format, std::forward<Args>(args)...));
}

// "bfloat16 [12, 8, 128]", or "absent".
std::string describe_tensor(const TensorView& view);

// "[12, 8, 128]"
std::string describe_shape(const TensorView& view);

// "cpu" or "cuda:0"
std::string describe_device(Device device);

}  // namespace tilegate

// Returns the Status of an expression from the enclosing function when it is an error.
#define TILEGATE_RETURN_IF_ERROR(expression)                                      \
  do {                                                                            \
    if (::tilegate::Status status_ = (expression); !status_.ok()) return status_; \
  } while (false)
