// SPDX-License-Identifier: Apache-2.0
// A lane's eight columns of a state row, in registers as they are stored, and as fp32. States of
// one element type with 16-byte aligned rows have their own form; every other pair of types, any
// stride and any alignment share StateTyped, which asks at run time. kHalves: a lane's second four
// columns are K / 2 after its first, else next to them.
#pragma once

#include "kernel/linear/decode_params.h"
#include "kernel/ptx/global.cuh"
#include "kernel/tile/element_load.cuh"

namespace tilegate::kernel {

// Row `row` of a head's state in slot `slot`.
__device__ __forceinline__ char* row_pointer(const StateRows& s, std::int64_t slot, int head,
                                             int row) {
  return static_cast<char*>(s.data) + slot * s.slot + head * s.head + row * s.row;
}

// A lane's columns of a row, as distances in bytes from its beginning.
struct LaneColumns {
  int first = 0;   // of its first four
  int second = 0;  // from its first to its second four
};

template <int kDimK, bool kHalves>
__device__ __forceinline__ LaneColumns lane_columns(int lane, int element_bytes) {
  if constexpr (kHalves) return {4 * lane * element_bytes, kDimK / 2 * element_bytes};
  return {8 * lane * element_bytes, 4 * element_bytes};
}

// fp32: two groups of four columns, half a row apart, so that each access of a warp is contiguous.
// kAccesses: of 16 bytes, for a lane's part of a row; such states are staged, that is copied to
// shared memory while the block prepares its steps. A lane reads only what it copied itself, so
// nothing is synchronised.
struct StateFp32 {
  static constexpr int kAccesses = 2;
  struct Raw {
    uint4 x[2];
  };
  static constexpr bool kHalves = true;
  static __device__ __forceinline__ int element_bytes(const StateRows&) { return 4; }
  static __device__ __forceinline__ Raw load(const char* at, const StateRows&, int second) {
    return {{ptx::load_128(at), ptx::load_128(at + second)}};
  }
  static __device__ __forceinline__ void store(const Raw& raw, char* at, const StateRows&,
                                               int second) {
    ptx::store_128(at, raw.x[0]);
    ptx::store_128(at + second, raw.x[1]);
  }
  static __device__ __forceinline__ Raw staged(const uint4* stage, int distance) {
    return {{stage[0], stage[distance]}};
  }
  static __device__ __forceinline__ void widen(const Raw& raw, const StateRows&,
                                               float (&out)[kLaneColumns]) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      out[4 * i] = __uint_as_float(raw.x[i].x);
      out[4 * i + 1] = __uint_as_float(raw.x[i].y);
      out[4 * i + 2] = __uint_as_float(raw.x[i].z);
      out[4 * i + 3] = __uint_as_float(raw.x[i].w);
    }
  }
  static __device__ __forceinline__ Raw narrow(const float (&x)[kLaneColumns], const StateRows&) {
    Raw raw;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      raw.x[i] = {__float_as_uint(x[4 * i]), __float_as_uint(x[4 * i + 1]),
                  __float_as_uint(x[4 * i + 2]), __float_as_uint(x[4 * i + 3])};
    }
    return raw;
  }
  static __device__ __forceinline__ bool same_storage(const DeltaDecodeParams&) { return true; }
};

// bf16, fp16: eight neighbouring columns, one access.
template <class Element>
struct State16 {
  static constexpr int kAccesses = 1;
  struct Raw {
    uint4 x;
  };
  static constexpr bool kHalves = false;
  static __device__ __forceinline__ int element_bytes(const StateRows&) { return 2; }
  static __device__ __forceinline__ Raw load(const char* at, const StateRows&, int) {
    return {ptx::load_128(at)};
  }
  static __device__ __forceinline__ void store(const Raw& raw, char* at, const StateRows&, int) {
    ptx::store_128(at, raw.x);
  }
  static __device__ __forceinline__ Raw staged(const uint4* stage, int) { return {stage[0]}; }
  static __device__ __forceinline__ void widen(const Raw& raw, const StateRows&,
                                               float (&out)[kLaneColumns]) {
    const std::uint32_t pairs[4] = {raw.x.x, raw.x.y, raw.x.z, raw.x.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      out[2 * i] = Element::low(pairs[i]);
      out[2 * i + 1] = Element::high(pairs[i]);
    }
  }
  static __device__ __forceinline__ Raw narrow(const float (&x)[kLaneColumns], const StateRows&) {
    return {{Element::pack(x[0], x[1]), Element::pack(x[2], x[3]), Element::pack(x[4], x[5]),
             Element::pack(x[6], x[7])}};
  }
  static __device__ __forceinline__ bool same_storage(const DeltaDecodeParams&) { return true; }
};

// The type is in the StateRows; state_in, state_out and checkpoints may differ. Not staged.
struct StateTyped {
  static constexpr int kAccesses = 0;
  struct Raw {
    tile::Raw4 x[2];
  };
  static constexpr bool kHalves = false;
  static __device__ __forceinline__ int element_bytes(const StateRows& s) {
    return tile::bytes_of(s.kind);
  }
  static __device__ __forceinline__ Raw load(const char* at, const StateRows& s, int second) {
    return {{tile::load_raw4(at, s.kind, s.aligned != 0),
             tile::load_raw4(at + second, s.kind, s.aligned != 0)}};
  }
  static __device__ __forceinline__ void store(const Raw& raw, char* at, const StateRows& s,
                                               int second) {
    tile::store_raw4(raw.x[0], at, s.kind, s.aligned != 0);
    tile::store_raw4(raw.x[1], at + second, s.kind, s.aligned != 0);
  }
  static __device__ __forceinline__ void widen(const Raw& raw, const StateRows& s,
                                               float (&out)[kLaneColumns]) {
    tile::widen4(raw.x[0], s.kind, out);
    tile::widen4(raw.x[1], s.kind, out + 4);
  }
  static __device__ __forceinline__ Raw narrow(const float (&x)[kLaneColumns], const StateRows& s) {
    return {{tile::narrow4(x, s.kind), tile::narrow4(x + 4, s.kind)}};
  }
  static __device__ __forceinline__ bool same_storage(const DeltaDecodeParams& p) {
    return p.state_in.kind == p.state_out.kind;
  }
};

}  // namespace tilegate::kernel
