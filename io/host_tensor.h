// SPDX-License-Identifier: Apache-2.0
// HostTensor: a packed tensor that owns its host memory. The memory is zero when allocated and
// aligned for any SIMD load, whatever the file a tensor came from looked like.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

#include "tilegate/status.h"
#include "tilegate/tensor.h"

namespace tilegate::io {

class HostTensor {
 public:
  static constexpr std::size_t kAlignment = 256;

  HostTensor() = default;

  // Zero-filled. Errors: invalid_argument (rank outside 1..kMaxRank, a negative dimension, a size
  // past 2^63 bytes), out_of_workspace (no memory).
  static Result<HostTensor> allocate(DType dtype, std::span<const std::int64_t> shape);

  // A deep copy. Errors: out_of_workspace.
  Result<HostTensor> clone() const;

  const TensorView& view() const { return view_; }
  std::size_t bytes() const { return bytes_; }
  std::byte* data() { return static_cast<std::byte*>(view_.data); }
  const std::byte* data() const { return static_cast<const std::byte*>(view_.data); }
  template <class T>
  T* as() {
    return static_cast<T*>(view_.data);
  }
  template <class T>
  const T* as() const {
    return static_cast<const T*>(view_.data);
  }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory_;
  TensorView view_;
  std::size_t bytes_ = 0;
};

}  // namespace tilegate::io
