// SPDX-License-Identifier: Apache-2.0
// Helpers of the GPU tests: skipping without a GPU, device vectors, checked calls.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace tilegate::test {

inline int compute_capability() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) return 0;
  int major = 0;
  int minor = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0);
  return major * 10 + minor;
}

// A vector in device memory; copies at construction and on read().
template <class T>
class DeviceVector {
 public:
  explicit DeviceVector(const std::vector<T>& host) : size_(host.size()) {
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&data_), size_ * sizeof(T) + 16), cudaSuccess);
    write(host);
  }
  DeviceVector(const DeviceVector&) = delete;
  DeviceVector& operator=(const DeviceVector&) = delete;
  ~DeviceVector() { cudaFree(data_); }

  T* data() const { return data_; }
  std::size_t size() const { return size_; }
  void write(const std::vector<T>& host) {
    EXPECT_EQ(cudaMemcpy(data_, host.data(), size_ * sizeof(T), cudaMemcpyHostToDevice),
              cudaSuccess);
  }
  std::vector<T> read() const {
    std::vector<T> host(size_);
    EXPECT_EQ(cudaMemcpy(host.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost),
              cudaSuccess);
    return host;
  }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

// Reproducible values: a 64-bit linear congruential generator.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 2 + 1) {}
  std::uint32_t next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::uint32_t>(state_ >> 33);
  }
  // Uniform in [-1, 1).
  float uniform() { return static_cast<float>(next()) / 1073741824.0f - 1.0f; }
  int below(int n) { return static_cast<int>(next() % static_cast<std::uint32_t>(n)); }

 private:
  std::uint64_t state_;
};

}  // namespace tilegate::test

// Skips unless the machine has a GPU of at least this compute capability.
#define TILEGATE_REQUIRE_GPU(minimum)                                                         \
  do {                                                                                        \
    const int found_ = ::tilegate::test::compute_capability();                                \
    if (found_ < (minimum)) GTEST_SKIP() << "needs sm_" << (minimum) << ", found " << found_; \
  } while (false)
