// SPDX-License-Identifier: Apache-2.0
// A decode warp's arithmetic for at most 8 packed query rows against 16 keys a step. The rows are
// the narrow side of the products, S^T = K Q^T and O^T = V^T P^T: half the instructions and half
// the registers of a tile of 16 rows. Online softmax in base 2; each lane keeps rows 2 (lane % 4)
// and the next. Weights become the other product's operand by a transpose of 8 x 8 (movmatrix).
#pragma once

#include "kernel/attention/decode/warp.cuh"

namespace tilegate::kernel {

template <class Element, int kDim>
class DecodeNarrowWarp {
 public:
  static constexpr int kKeys = 16;
  static constexpr int kTileBytes = kKeys * kDim * 2;
  static constexpr float kSlack = 8.0f;
  static constexpr int kScratchRow = kDim + 4;  // floats; rows 2 i fall on different banks

  __device__ __forceinline__ void load_queries(std::uint32_t queries) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const std::uint32_t first = queries + tile::swizzled_offset<kDim>(lane % 8, lane / 8);
#pragma unroll
    for (int k = 0; k < kDim / 32; ++k) {
      std::uint32_t b[4];
      ptx::ldmatrix_x4(b, first ^ (k * 64));
      q_[2 * k][0] = b[0], q_[2 * k][1] = b[1], q_[2 * k + 1][0] = b[2], q_[2 * k + 1][1] = b[3];
    }
  }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < 2; ++i) max_[i] = -INFINITY, sum_[i] = 0.0f;
#pragma unroll
    for (int n = 0; n < kDim / 16; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) o_[n][i] = 0.0f;
    }
  }

  template <class At>
  __device__ __forceinline__ void multiply(const DecodeParams& p, const At& at, int key,
                                           std::uint32_t stage) {
    const int diagonal = at.span.kv_len - p.q_len;
    if (key >= at.span.kv_len) return;
    float s[4];
    scores(stage, s);
    scale(p, s);
    const bool inside = key + kKeys - 1 <= diagonal &&
                        (p.window_left < 0 || key >= diagonal + p.q_len - 1 - p.window_left);
    if (!inside) mask(p, at, key, s);
    std::uint32_t weights[2];
    soften(s, weights);
    if (inside || p.q_len == 1 || !any_infinite(stage + kTileBytes)) {
      accumulate(weights, stage + kTileBytes);
    } else {
      accumulate_apart(p, at, key, weights, stage + kTileBytes);
    }
  }

  // Makes the output and lse of all rows NaN.
  __device__ __forceinline__ void spoil() { sum_[0] = sum_[1] = NAN; }

  __device__ __forceinline__ void store_statistics(float* row_max, float* row_sum) {
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float sum = sum_[i];
#pragma unroll
      for (int step = 4; step < 32; step *= 2) sum += __shfl_xor_sync(tile::kFullWarp, sum, step);
      if (lane < 4) row_max[2 * lane + i] = max_[i], row_sum[2 * lane + i] = sum;
    }
  }

  // The output as [8, kScratchRow].
  __device__ __forceinline__ void store_rows(float* to) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    to += lane % 4 * 2 * kScratchRow + lane / 4;
#pragma unroll
    for (int n = 0; n < kDim / 16; ++n) {
      to[n * 16] = o_[n][0];
      to[n * 16 + kScratchRow] = o_[n][1];
      to[n * 16 + 8] = o_[n][2];
      to[n * 16 + 8 + kScratchRow] = o_[n][3];
    }
  }

 private:
  __device__ __forceinline__ void scores(std::uint32_t k_tile, float (&s)[4]) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const std::uint32_t address = k_tile + tile::swizzled_offset<kDim>(lane % 16, lane / 16);
    float part[2][4] = {};
#pragma unroll
    for (int k = 0; k < kDim / 16; ++k) {
      std::uint32_t a[4];
      ptx::ldmatrix_x4(a, address ^ (k * 32));
      Element::mma(part[k % 2], a, q_[k][0], q_[k][1]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) s[i] = part[0][i] + part[1][i];
  }

  static __device__ __forceinline__ void scale(const DecodeParams& p, float (&s)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) s[i] *= p.scale_log2;
    if (p.cap_log2 == 0.0f) return;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float e = ptx::exp2_approx(s[i] * (2.0f * kLog2e));
      s[i] = p.cap_log2 * (1.0f - __fdividef(2.0f, 1.0f + e));
    }
  }

  template <class At>
  static __device__ __forceinline__ int token_of(const DecodeParams& p, const At& at, int i) {
    const int row = static_cast<int>(threadIdx.x % 4) * 2 + i;
    return (at.row_block * p.block_rows + row) / p.group;
  }

  template <class At>
  static __device__ __forceinline__ void mask(const DecodeParams& p, const At& at, int key,
                                              float (&s)[4]) {
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int last = at.span.kv_len - p.q_len + token_of(p, at, i % 2);
      if (!sees(p, last, key + lane / 4 + i / 2 * 8)) s[i] = -INFINITY;
    }
  }

  static __device__ __forceinline__ bool sees(const DecodeParams& p, int last, int key) {
    return key <= last && (p.window_left < 0 || key >= last - p.window_left);
  }

  __device__ __forceinline__ void soften(float (&s)[4], std::uint32_t (&weights)[2]) {
    float top[2] = {fmaxf(s[0], s[2]), fmaxf(s[1], s[3])};
    if (__any_sync(tile::kFullWarp, top[0] > max_[0] + kSlack || top[1] > max_[1] + kSlack)) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int step = 4; step < 32; step *= 2) {
          top[i] = fmaxf(top[i], __shfl_xor_sync(tile::kFullWarp, top[i], step));
        }
        const float grown = fmaxf(max_[i], top[i]);
        const float factor = ptx::exp2_approx(max_[i] - finite_base(grown));
        max_[i] = grown;
        sum_[i] *= factor;
#pragma unroll
        for (int n = 0; n < kDim / 16; ++n) o_[n][i] *= factor, o_[n][2 + i] *= factor;
      }
    }
    const float base[2] = {finite_base(max_[0]), finite_base(max_[1])};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float lo = ptx::exp2_approx(s[2 * half] - base[0]);
      const float hi = ptx::exp2_approx(s[2 * half + 1] - base[1]);
      sum_[0] += lo;
      sum_[1] += hi;
      weights[half] = ptx::transpose_8x8(Element::pack(lo, hi));
    }
  }

  // Matrices: keys 0-7 at chunks 2n and 2n + 1, then keys 8-15.
  static __device__ __forceinline__ std::uint32_t v_address(std::uint32_t v_tile) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    return v_tile + tile::swizzled_offset<kDim>(lane % 8 + lane / 16 * 8, lane / 8 % 2);
  }

  __device__ __forceinline__ void accumulate(const std::uint32_t (&weights)[2],
                                             std::uint32_t v_tile) {
    const std::uint32_t address = v_address(v_tile);
#pragma unroll
    for (int n = 0; n < kDim / 16; ++n) {
      std::uint32_t a[4];
      ptx::ldmatrix_x4_trans(a, address ^ (n * 32));
      Element::mma(o_[n], a, weights[0], weights[1]);
    }
  }

  static __device__ __forceinline__ bool any_infinite(std::uint32_t v_tile) {
    const std::uint32_t address = v_address(v_tile);
    constexpr std::uint32_t kLow = Element::kExponent;
    constexpr std::uint32_t kHigh = kLow << 16;
    bool found = false;
#pragma unroll
    for (int n = 0; n < kDim / 16; ++n) {
      std::uint32_t a[4];
      ptx::ldmatrix_x4_trans(a, address ^ (n * 32));
#pragma unroll
      for (int i = 0; i < 4; ++i) found |= (a[i] & kLow) == kLow || (a[i] & kHigh) == kHigh;
    }
    return __any_sync(tile::kFullWarp, found);
  }

  template <class At>
  __device__ __forceinline__ void accumulate_apart(const DecodeParams& p, const At& at, int key,
                                                   const std::uint32_t (&weights)[2],
                                                   std::uint32_t v_tile) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const std::uint32_t address = v_address(v_tile);
    const int tokens[2] = {token_of(p, at, 0), token_of(p, at, 1)};
    const int first = key + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < kDim / 16; ++n) {
      std::uint32_t a[4];
      ptx::ldmatrix_x4_trans(a, address ^ (n * 32));
      for (int token = 0; token < p.q_len; ++token) {
        const int last = at.span.kv_len - p.q_len + token;
        const std::uint32_t upper = keep_pair(p, last, first);
        const std::uint32_t lower = keep_pair(p, last, first + 8);
        const std::uint32_t kept[4] = {a[0] & upper, a[1] & upper, a[2] & lower, a[3] & lower};
        float c[4] = {};
        Element::mma(c, kept, weights[0], weights[1]);
#pragma unroll
        for (int i = 0; i < 4; ++i) o_[n][i] += tokens[i % 2] == token ? c[i] : 0.0f;
      }
    }
  }

  static __device__ __forceinline__ std::uint32_t keep_pair(const DecodeParams& p, int last,
                                                            int key) {
    return (sees(p, last, key) ? 0xffffu : 0u) | (sees(p, last, key + 1) ? 0xffff0000u : 0u);
  }

  std::uint32_t q_[kDim / 16][2];
  float o_[kDim / 16][4];
  float max_[2];
  float sum_[2];
};

}  // namespace tilegate::kernel
