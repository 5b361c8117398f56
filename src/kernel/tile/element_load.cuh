// SPDX-License-Identifier: Apache-2.0
// Loads and stores of elements whose type is known at run time only: the branches are uniform over
// a grid. Four neighbours are one access of 8 or 16 bytes where the caller knows them aligned.
#pragma once

#include "kernel/ptx/math.cuh"
#include "kernel/tile/element.cuh"
#include "kernel/tile/element_params.h"

namespace tilegate::tile {

// An index as it is stored. Loads of several are in flight together; index_of() waits.
struct RawIndex {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
};

// Entry i of an array that begins `skipped` bytes later. Without a branch on the type: the low word
// is there in both.
__device__ __forceinline__ RawIndex load_raw_index(const IndexArray& array, int i,
                                                   std::int64_t skipped = 0) {
  const char* at = static_cast<const char*>(array.data) + (skipped + std::int64_t{i} * array.step);
  RawIndex raw;
  raw.low = reinterpret_cast<const std::uint32_t*>(at)[0];
  if (array.is_int64 != 0) raw.high = reinterpret_cast<const std::uint32_t*>(at)[1];
  return raw;
}

__device__ __forceinline__ std::int64_t index_of(const IndexArray& array, const RawIndex& raw) {
  const std::int64_t narrow = static_cast<std::int32_t>(raw.low);
  const auto wide = static_cast<std::int64_t>(static_cast<std::uint64_t>(raw.high) << 32 | raw.low);
  return array.is_int64 != 0 ? wide : narrow;
}

__device__ __forceinline__ std::int64_t load_index(const IndexArray& array, int i,
                                                   std::int64_t skipped = 0) {
  return index_of(array, load_raw_index(array, i, skipped));
}

__device__ __forceinline__ int bytes_of(ElementKind kind) {
  return kind == ElementKind::kFp32 ? 4 : 2;
}

// One element as it is stored: loads of several are in flight together; widen() waits. `at` is its
// address, `elements` a distance from there that is known when compiling.
template <int kElements = 0>
__device__ __forceinline__ std::uint32_t load_raw_at(const char* at, ElementKind kind) {
  std::uint32_t raw = 0;
  if (kind == ElementKind::kFp32) raw = *reinterpret_cast<const std::uint32_t*>(at + 4 * kElements);
  if (kind != ElementKind::kFp32) raw = *reinterpret_cast<const std::uint16_t*>(at + 2 * kElements);
  return raw;
}

__device__ __forceinline__ float widen(std::uint32_t raw, ElementKind kind) {
  if (kind == ElementKind::kFp32) return __uint_as_float(raw);
  if (kind == ElementKind::kBf16) return __uint_as_float(raw << 16);
  return ptx::unpack_fp16(static_cast<std::uint16_t>(raw));
}

// Four elements as they are stored: 16-bit types fill two words.
struct Raw4 {
  std::uint32_t word[4];
};

__device__ __forceinline__ void store_at(char* at, ElementKind kind, float x) {
  if (kind == ElementKind::kFp32) {
    *reinterpret_cast<float*>(at) = x;
    return;
  }
  const std::uint32_t pair = kind == ElementKind::kBf16 ? Bf16::pack(x, x) : Fp16::pack(x, x);
  *reinterpret_cast<std::uint16_t*>(at) = static_cast<std::uint16_t>(pair);
}

__device__ __forceinline__ Raw4 load_raw4(const char* at, ElementKind kind, bool aligned) {
  Raw4 raw{};
  if (kind == ElementKind::kFp32) {
    const auto* source = reinterpret_cast<const std::uint32_t*>(at);
    if (aligned) {
      const uint4 x = *reinterpret_cast<const uint4*>(source);
      return {{x.x, x.y, x.z, x.w}};
    }
    return {{source[0], source[1], source[2], source[3]}};
  }
  const auto* source = reinterpret_cast<const std::uint16_t*>(at);
  if (aligned) {
    const uint2 x = *reinterpret_cast<const uint2*>(source);
    raw.word[0] = x.x, raw.word[1] = x.y;
    return raw;
  }
  raw.word[0] = source[0] | static_cast<std::uint32_t>(source[1]) << 16;
  raw.word[1] = source[2] | static_cast<std::uint32_t>(source[3]) << 16;
  return raw;
}

__device__ __forceinline__ void store_raw4(const Raw4& raw, char* at, ElementKind kind,
                                           bool aligned) {
  if (kind == ElementKind::kFp32) {
    auto* target = reinterpret_cast<std::uint32_t*>(at);
    if (aligned) {
      *reinterpret_cast<uint4*>(target) = {raw.word[0], raw.word[1], raw.word[2], raw.word[3]};
      return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) target[i] = raw.word[i];
    return;
  }
  auto* target = reinterpret_cast<std::uint16_t*>(at);
  if (aligned) {
    *reinterpret_cast<uint2*>(target) = {raw.word[0], raw.word[1]};
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    target[i] = static_cast<std::uint16_t>(raw.word[i / 2] >> (16 * (i % 2)));
  }
}

__device__ __forceinline__ void widen4(const Raw4& raw, ElementKind kind, float* out) {
  if (kind == ElementKind::kFp32) {
#pragma unroll
    for (int i = 0; i < 4; ++i) out[i] = __uint_as_float(raw.word[i]);
    return;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const std::uint32_t pair = raw.word[i];
    const bool bf16 = kind == ElementKind::kBf16;
    out[2 * i] = bf16 ? Bf16::low(pair) : Fp16::low(pair);
    out[2 * i + 1] = bf16 ? Bf16::high(pair) : Fp16::high(pair);
  }
}

__device__ __forceinline__ Raw4 narrow4(const float* x, ElementKind kind) {
  Raw4 raw{};
  if (kind == ElementKind::kFp32) {
#pragma unroll
    for (int i = 0; i < 4; ++i) raw.word[i] = __float_as_uint(x[i]);
    return raw;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    raw.word[i] = kind == ElementKind::kBf16 ? Bf16::pack(x[2 * i], x[2 * i + 1])
                                             : Fp16::pack(x[2 * i], x[2 * i + 1]);
  }
  return raw;
}

}  // namespace tilegate::tile
