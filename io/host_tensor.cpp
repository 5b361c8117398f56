// SPDX-License-Identifier: Apache-2.0
// Allocation of HostTensor: over-allocates by one alignment, so that calloc can hand out pages the
// system zeroes on first touch instead of memory that is cleared twice.
#include "io/host_tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace tilegate::io {

Result<HostTensor> HostTensor::allocate(DType dtype, std::span<const std::int64_t> shape) {
  if (shape.empty() || shape.size() > static_cast<std::size_t>(kMaxRank)) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("rank must be 1..{}, got {}", kMaxRank, shape.size()));
  }
  constexpr std::int64_t kLimit = std::numeric_limits<std::int64_t>::max() / 16;
  std::int64_t bytes = size_of(dtype);
  const bool empty = std::any_of(shape.begin(), shape.end(), [](auto dim) { return dim == 0; });
  HostTensor tensor;
  tensor.view_.dtype = dtype;
  tensor.view_.rank = static_cast<int>(shape.size());
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::int64_t dim = shape[i];
    if (dim < 0) {
      return Status(StatusCode::kInvalidArgument,
                    fmt::format("dimension {} must be >= 0, got {}", i, dim));
    }
    if (!empty && dim > kLimit / bytes) {
      return Status(StatusCode::kInvalidArgument, "a tensor must be smaller than 2^59 bytes");
    }
    tensor.view_.shape[i] = dim;
    bytes = empty ? 0 : bytes * dim;
  }
  std::int64_t stride = 1;
  for (int i = tensor.view_.rank - 1; i >= 0; --i) {
    tensor.view_.strides[i] = stride;
    // Strides of a tensor without entries are never used, but must not overflow.
    const std::int64_t dim = std::max<std::int64_t>(tensor.view_.shape[i], 1);
    stride = stride > kLimit / dim ? stride : stride * dim;
  }
  tensor.bytes_ = static_cast<std::size_t>(bytes);
  tensor.memory_.reset(std::calloc(1, tensor.bytes_ + kAlignment));
  if (!tensor.memory_) {
    return Status(StatusCode::kOutOfWorkspace, fmt::format("no memory for {} bytes", bytes));
  }
  std::size_t space = tensor.bytes_ + kAlignment;
  void* start = tensor.memory_.get();
  tensor.view_.data = std::align(kAlignment, tensor.bytes_, start, space);
  return tensor;
}

Result<HostTensor> HostTensor::clone() const {
  Result<HostTensor> copy =
      allocate(view_.dtype, {view_.shape.data(), static_cast<std::size_t>(view_.rank)});
  if (copy.ok() && bytes_ > 0) std::memcpy(copy->data(), data(), bytes_);
  return copy;
}

}  // namespace tilegate::io
