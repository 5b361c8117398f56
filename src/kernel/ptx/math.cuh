// SPDX-License-Identifier: Apache-2.0
// Single-instruction arithmetic: base-2 exponential and logarithm, packing to 16 bits.
#pragma once

#include "kernel/ptx/arch.cuh"

namespace tilegate::ptx {

// 2^x, 2 ulp; exp2(-inf) is exactly 0.
__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
}

// log2(x); log2(0) is -inf.
__device__ __forceinline__ float log2_approx(float x) {
  float y;
  asm("lg2.approx.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
}

// {lo, hi} rounded to nearest even, lo in the lower half.
__device__ __forceinline__ std::uint32_t pack_bf16(float lo, float hi) {
  std::uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(packed) : "f"(hi), "f"(lo));
  return packed;
}

__device__ __forceinline__ std::uint32_t pack_fp16(float lo, float hi) {
  std::uint32_t packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;\n" : "=r"(packed) : "f"(hi), "f"(lo));
  return packed;
}

__device__ __forceinline__ float unpack_fp16(std::uint16_t bits) {
  float x;
  asm("cvt.f32.f16 %0, %1;\n" : "=f"(x) : "h"(bits));
  return x;
}

}  // namespace tilegate::ptx
