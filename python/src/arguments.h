// SPDX-License-Identifier: Apache-2.0
// Reading the positional arguments of a call from Python: tensors (any framework, by DLPack) and
// scalars, in the order that python/tilegate passes them.
#pragma once

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/optional.h>
#include <tvm/ffi/string.h>

#include <optional>
#include <string>

#include "tilegate/dlpack.h"
#include "tilegate/tilegate.h"

namespace tilegate::python {

namespace ffi = tvm::ffi;

// Throws the Python exception that belongs to a status.
void raise_if_error(const Status& status);

// Throws ValueError when the name is none of the backends.
Backend backend_from(const std::string& name);

class ArgumentReader {
 public:
  explicit ArgumentReader(ffi::PackedArgs args) : args_(args) {}

  // None is an absent tensor.
  TensorView tensor();
  template <class Args, std::size_t N>
  void tensors(Args& into, TensorView Args::*const (&fields)[N]) {
    for (TensorView Args::*field : fields) into.*field = tensor();
  }
  std::int64_t integer() { return args_[next_++].cast<std::int64_t>(); }
  bool flag() { return args_[next_++].cast<bool>(); }
  double real() { return args_[next_++].cast<double>(); }
  std::string text() { return std::string(args_[next_++].cast<ffi::String>()); }
  std::optional<double> optional_real() {
    const ffi::AnyView arg = args_[next_++];
    if (arg == nullptr) return std::nullopt;
    return arg.cast<double>();
  }
  std::optional<bool> optional_flag() {
    const ffi::AnyView arg = args_[next_++];
    if (arg == nullptr) return std::nullopt;
    return arg.cast<bool>();
  }
  template <class T>
  T value() {
    return args_[next_++].cast<T>();
  }

 private:
  ffi::PackedArgs args_;
  int next_ = 0;
};

}  // namespace tilegate::python
