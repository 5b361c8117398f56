// SPDX-License-Identifier: Apache-2.0
// Text forms of tensors for error messages.
#include "core/message.h"

namespace tilegate {

std::string describe_shape(const TensorView& view) {
  std::string text = "[";
  for (int i = 0; i < view.rank; ++i) {
    text += fmt::format("{}{}", i > 0 ? ", " : "", view.shape[i]);
  }
  return text + "]";
}

std::string describe_device(Device device) {
  return device.type == DeviceType::kCpu ? "cpu" : fmt::format("cuda:{}", device.index);
}

std::string describe_tensor(const TensorView& view) {
  if (!view.present()) return "absent";
  return fmt::format("{} {}", to_string(view.dtype), describe_shape(view));
}

}  // namespace tilegate
