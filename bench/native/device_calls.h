// SPDX-License-Identifier: Apache-2.0
// What the native timing programs share: buffers on the first GPU, views of them, and the time of a
// call in a recording of ten.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <vector>

#include "tilegate/device_timing.h"
#include "tilegate/tilegate.h"

namespace tilegate::bench {

inline constexpr Device kGpu{DeviceType::kCuda, 0};
inline constexpr int kCalls = 10;  // in a recording

inline DeviceBuffer zeros(std::int64_t bytes) {
  DeviceBuffer buffer = DeviceBuffer::allocate(kGpu, static_cast<std::size_t>(bytes)).value();
  buffer.fill(0).throw_if_error();
  return buffer;
}

template <class T>
DeviceBuffer copy_of(const std::vector<T>& values) {
  const std::size_t bytes = values.size() * sizeof(T);
  DeviceBuffer buffer = DeviceBuffer::allocate(kGpu, bytes).value();
  buffer.copy_from_host(values.data(), bytes).throw_if_error();
  return buffer;
}

inline TensorView view(const DeviceBuffer& buffer, DType type,
                       std::initializer_list<std::int64_t> shape) {
  return TensorView::packed(buffer.data(), type, shape, kGpu);
}

// Median microseconds of one of kCalls calls of `work`, which is given their numbers.
template <class NumberedWork>
double median_us(const Stream& stream, int repeats, const NumberedWork& work) {
  const Recording calls = Recording::capture(stream, [&] {
                            for (int i = 0; i < kCalls; ++i) {
                              if (Status done = work(i); !done.ok()) return done;
                            }
                            return Status{};
                          }).value();
  std::vector<double> samples;
  for (int i = -3; i < repeats; ++i) {
    const double ms = measure_ms(stream, [&] { return calls.replay(stream); }).value();
    if (i >= 0) samples.push_back(1e3 * ms / kCalls);
  }
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

// The same of a copy that reads `bytes` and writes as many.
inline double copy_us(const Stream& stream, int repeats, std::int64_t bytes) {
  const DeviceBuffer from = zeros(bytes);
  DeviceBuffer to = zeros(bytes);
  return median_us(stream, repeats,
                   [&](int) { return enqueue_copy(stream, to, from, from.bytes()); });
}

// N of `--repeats N`, else 20.
inline int repeats_of(int argc, char** argv) {
  const bool given = argc == 3 && std::strcmp(argv[1], "--repeats") == 0;
  return given ? std::max(1, std::atoi(argv[2])) : 20;
}

}  // namespace tilegate::bench
