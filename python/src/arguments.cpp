// SPDX-License-Identifier: Apache-2.0
// DLPack tensors and error kinds.
#include "arguments.h"

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

}  // namespace

void raise_if_error(const Status& status) {
  if (status.ok()) return;
  throw ffi::Error(exception_of(status.code()), status.message(), "");
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
