// SPDX-License-Identifier: Apache-2.0
// Reading the positional arguments of a call from Python: tensors (any framework, by DLPack) and
// scalars, in the order that python/tilegate passes them. Only what is read is converted, so a call
// costs what its present arrays and its changed options cost.
#pragma once

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <cstdint>
#include <string>
#include <type_traits>

#include "tilegate/dlpack.h"
#include "tilegate/tilegate.h"

namespace tilegate::python {

namespace ffi = tvm::ffi;

// Throws the Python exception that belongs to a status.
void raise_if_error(const Status& status);

// A sentence of the library with arguments as Python calls them: its output o is `out`.
std::string in_python_words(const std::string& text);

// Throws ValueError, which names the argument, for what an int that is not negative does not hold.
int to_count(const char* name, std::int64_t value);

class ArgumentReader {
 public:
  explicit ArgumentReader(ffi::PackedArgs args) : args_(args) {}

  // Whether unsigned 16-bit integers stand for bfloat16, which numpy has not in DLPack. No call of
  // the library takes such integers otherwise.
  void words_are_bfloat16(bool are) { words_are_bfloat16_ = are; }
  // None is an absent tensor.
  TensorView tensor();
  template <class Args, std::size_t N>
  void tensors(Args& into, TensorView Args::*const (&fields)[N]) {
    for (TensorView Args::*field : fields) into.*field = tensor();
  }
  // Numbers, flags and objects as they are; an enumeration by number: its order is the order of the
  // names in Python. Integers are 64 bits wide, for tvm-ffi cuts them to narrower ones in silence.
  template <class T>
  T value() {
    static_assert(!std::is_integral_v<T> || std::is_same_v<T, bool> ||
                  sizeof(T) == sizeof(std::int64_t));
    const ffi::AnyView arg = args_[next_++];
    if constexpr (std::is_enum_v<T>) {
      return static_cast<T>(arg.cast<std::int64_t>());
    } else {
      return arg.cast<T>();
    }
  }
  bool done() const { return next_ == args_.size(); }

 private:
  ffi::PackedArgs args_;
  int next_ = 0;
  bool words_are_bfloat16_ = false;
};

}  // namespace tilegate::python
