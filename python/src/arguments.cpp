// SPDX-License-Identifier: Apache-2.0
// DLPack tensors and error kinds.
#include "arguments.h"

#include <limits>

namespace tilegate::python {
namespace {

const char* exception_of(StatusCode code) {
  switch (code) {
    case StatusCode::kInvalidArgument:
      return "ValueError";
    case StatusCode::kUnsupported:
      return "NotImplementedError";
    case StatusCode::kOutOfWorkspace:
      return "MemoryError";
    case StatusCode::kIo:
      return "OSError";
    default:
      return "RuntimeError";
  }
}

bool has_words(const DLTensor& tensor) {
  return tensor.dtype.code == kDLUInt && tensor.dtype.bits == 16;
}

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

}  // namespace

std::string in_python_words(const std::string& text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool inside =
        (i > 0 && is_word(text[i - 1])) || (i + 1 < text.size() && is_word(text[i + 1]));
    if (text[i] == 'o' && !inside) {
      result += "out";
    } else {
      result += text[i];
    }
  }
  return result;
}

void raise_if_error(const Status& status) {
  if (status.ok()) return;
  throw ffi::Error(exception_of(status.code()), in_python_words(status.message()), "");
}

int to_count(const char* name, std::int64_t value) {
  constexpr int kMost = std::numeric_limits<int>::max();
  if (value >= 0 && value <= kMost) return static_cast<int>(value);
  throw ffi::Error(
      "ValueError",
      std::string(name) + " must be 0.." + std::to_string(kMost) + ", got " + std::to_string(value),
      "");
}

TensorView ArgumentReader::tensor() {
  const ffi::AnyView arg = args_[next_++];
  if (arg == nullptr) return {};
  DLTensor tensor = *arg.cast<DLTensor*>();
  if (words_are_bfloat16_ && has_words(tensor)) tensor.dtype.code = kDLBfloat;
  Result<TensorView> view = from_dlpack(tensor);
  raise_if_error(view.status());
  return *view;
}

}  // namespace tilegate::python
