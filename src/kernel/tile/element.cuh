// SPDX-License-Identifier: Apache-2.0
// The two 16-bit element types as policies: a kernel is a template over Bf16 or Fp16 and moves
// their elements as packed 32-bit pairs.
#pragma once

#include "kernel/ptx/math.cuh"
#include "kernel/ptx/mma.cuh"

namespace tilegate::tile {

struct Bf16 {
  static constexpr int kBytes = 2;
  static constexpr std::uint32_t kExponent = 0x7f80;  // all ones: infinite or NaN
  static __device__ __forceinline__ float load(const void* at) {
    return low(*static_cast<const std::uint16_t*>(at));
  }
  static __device__ __forceinline__ void store(void* at, float x) {
    *static_cast<std::uint16_t*>(at) = static_cast<std::uint16_t>(pack(x, 0.0f));
  }
  static __device__ __forceinline__ std::uint32_t pack(float lo, float hi) {
    return ptx::pack_bf16(lo, hi);
  }
  static __device__ __forceinline__ float low(std::uint32_t pair) {
    return __uint_as_float(pair << 16);
  }
  static __device__ __forceinline__ float high(std::uint32_t pair) {
    return __uint_as_float(pair & 0xffff0000u);
  }
  static __device__ __forceinline__ void mma(float (&c)[4], const std::uint32_t (&a)[4],
                                             std::uint32_t b0, std::uint32_t b1) {
    ptx::mma_m16n8k16_bf16(c, a, b0, b1);
  }
};

struct Fp16 {
  static constexpr int kBytes = 2;
  static constexpr std::uint32_t kExponent = 0x7c00;
  static __device__ __forceinline__ float load(const void* at) {
    return low(*static_cast<const std::uint16_t*>(at));
  }
  static __device__ __forceinline__ void store(void* at, float x) {
    *static_cast<std::uint16_t*>(at) = static_cast<std::uint16_t>(pack(x, 0.0f));
  }
  static __device__ __forceinline__ std::uint32_t pack(float lo, float hi) {
    return ptx::pack_fp16(lo, hi);
  }
  static __device__ __forceinline__ float low(std::uint32_t pair) {
    return ptx::unpack_fp16(static_cast<std::uint16_t>(pair & 0xffffu));
  }
  static __device__ __forceinline__ float high(std::uint32_t pair) {
    return ptx::unpack_fp16(static_cast<std::uint16_t>(pair >> 16));
  }
  static __device__ __forceinline__ void mma(float (&c)[4], const std::uint32_t (&a)[4],
                                             std::uint32_t b0, std::uint32_t b1) {
    ptx::mma_m16n8k16_fp16(c, a, b0, b1);
  }
};

struct Fp32 {
  static constexpr int kBytes = 4;
  static __device__ __forceinline__ float load(const void* at) {
    return *static_cast<const float*>(at);
  }
  static __device__ __forceinline__ void store(void* at, float x) { *static_cast<float*>(at) = x; }
};

}  // namespace tilegate::tile
