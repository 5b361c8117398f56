// SPDX-License-Identifier: Apache-2.0
// A thread's run of elements as fp32: loaded and stored as one 16-byte word when it fills one, else
// element by element.
#pragma once

#include "kernel/tile/element.cuh"

namespace tilegate::tile {

// Elements that fill 16 bytes.
template <class Element>
inline constexpr int kWordElements = 16 / Element::kBytes;

template <class Element, int kCount>
struct Vector {
  static_assert(kCount == 1 || kCount == kWordElements<Element>, "one element or one word");
  float values[kCount] = {};

  // `offset` in elements.
  __device__ __forceinline__ void load(const void* data, std::int64_t offset) {
    const char* at = static_cast<const char*>(data) + offset * Element::kBytes;
    if constexpr (kCount == 1) {
      values[0] = Element::load(at);
    } else {
      const uint4 word = __ldg(reinterpret_cast<const uint4*>(at));
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
  }

  __device__ __forceinline__ void store(void* data, std::int64_t offset) const {
    char* at = static_cast<char*>(data) + offset * Element::kBytes;
    if constexpr (kCount == 1) {
      Element::store(at, values[0]);
    } else {
      std::uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if constexpr (Element::kBytes == 4) {
          words[i] = __float_as_uint(values[i]);
        } else {
          words[i] = Element::pack(values[2 * i], values[2 * i + 1]);
        }
      }
      *reinterpret_cast<uint4*>(at) = make_uint4(words[0], words[1], words[2], words[3]);
    }
  }
};

}  // namespace tilegate::tile
