// SPDX-License-Identifier: Apache-2.0
// Device tensors of a call, filled fast: one random block of a few MB is made on the host and
// repeated by copies on the device, so that gigabytes of inputs take milliseconds. Rows do not
// share memory, so caches see as many bytes as if every value were its own draw.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <random>
#include <vector>

#include "tilegate/device_timing.h"
#include "tilegate/tensor.h"

namespace tilegate::bench {

enum class Values : std::uint8_t {
  kNormal,           // N(0, 1)
  kUnitRows,         // N(0, 1), then rows of the innermost dimension scaled to length 1
  kUniform,          // U(0, 1)
  kForgetSlowly,     // sigmoid(n + 3)
  kForgetSlowlyLog,  // ln sigmoid(n + 3)
  kSteep,            // exp(-5 u)
  kSteepLog,         // -5 u
  kKdaRate,          // log(1 + 1.7 u)
  kZero,
  kOne,
};

using Dims = std::initializer_list<std::int64_t>;

// Owns what it hands out. Errors are thrown as tilegate::Error (memory, CUDA).
class Tensors {
 public:
  explicit Tensors(const Stream& stream) : stream_(stream) {}

  TensorView filled(DType dtype, Dims dims, Values values);
  TensorView empty(DType dtype, Dims dims);
  TensorView indices(const std::vector<std::int32_t>& values, Dims dims);

 private:
  DeviceBuffer& allocate(std::size_t bytes);

  const Stream& stream_;
  std::vector<DeviceBuffer> buffers_;
  std::mt19937 random_{7};
};

}  // namespace tilegate::bench
