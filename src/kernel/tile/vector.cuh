// SPDX-License-Identifier: Apache-2.0
// A thread's run of elements: loaded as they are stored, one 16-byte word where it fills one, else
// a single element; unpacked to fp32 only where they are used, so that several may be in flight in
// few registers.
#pragma once

#include "kernel/ptx/global.cuh"
#include "kernel/tile/element.cuh"

namespace tilegate::tile {

// Elements that fill 16 bytes.
template <class Element>
inline constexpr int kWordElements = 16 / Element::kBytes;

template <class Element, int kCount>
struct Vector;

template <class Element>
struct Vector<Element, 1> {
  float value = 0.0f;

  __device__ __forceinline__ void load(const void* at) { value = Element::load(at); }
  __device__ __forceinline__ void unpack(float (&values)[1]) const { values[0] = value; }
  // `offset` in elements.
  static __device__ __forceinline__ void store(void* data, std::int64_t offset,
                                               const float (&values)[1]) {
    Element::store(static_cast<char*>(data) + offset * Element::kBytes, values[0]);
  }
};

template <class Element, int kCount>
struct Vector {
  static_assert(kCount == kWordElements<Element>, "one element or one word");
  uint4 word = {0, 0, 0, 0};

  __device__ __forceinline__ void load(const void* at) { word = ptx::load_128(at); }

  __device__ __forceinline__ void unpack(float (&values)[kCount]) const {
    const std::uint32_t words[4] = {word.x, word.y, word.z, word.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (Element::kBytes == 4) {
        values[i] = __uint_as_float(words[i]);
      } else {
        values[2 * i] = Element::low(words[i]);
        values[2 * i + 1] = Element::high(words[i]);
      }
    }
  }

  static __device__ __forceinline__ void store(void* data, std::int64_t offset,
                                               const float (&values)[kCount]) {
    std::uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (Element::kBytes == 4) {
        words[i] = __float_as_uint(values[i]);
      } else {
        words[i] = Element::pack(values[2 * i], values[2 * i + 1]);
      }
    }
    ptx::store_128(static_cast<char*>(data) + offset * Element::kBytes,
                   make_uint4(words[0], words[1], words[2], words[3]));
  }
};

}  // namespace tilegate::tile
