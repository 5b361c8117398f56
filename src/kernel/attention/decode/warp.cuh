// SPDX-License-Identifier: Apache-2.0
// A decode warp's arithmetic: kMTiles * 16 packed query rows against 16 keys a step, online softmax
// in base 2, output in registers. Each lane keeps, for every m-tile, rows lane / 4 and lane / 4
// + 8.
#pragma once

#include "kernel/attention/decode/loader.cuh"
#include "kernel/tile/element.cuh"

namespace tilegate::kernel {

inline constexpr float kLog2e = 1.4426950408889634f;

// What is subtracted before exponentials: never -inf, so that -inf - base stays -inf.
__device__ __forceinline__ float finite_base(float top) { return top == -INFINITY ? 0.0f : top; }

template <class Element, int kDim, int kMTiles>
class DecodeWarp {
 public:
  static constexpr int kKeys = 16;
  static constexpr int kTileBytes = kKeys * kDim * 2;  // of K, and of V behind it
  static constexpr float kSlack = 8.0f;                // log2

  // Query fragments stay in registers where they fit beside the output, else in shared memory.
  static constexpr bool kSharedQueries = kMTiles * kDim >= 256;

  // Takes the query rows of a unit from shared memory, [16 * kMTiles, dim] swizzled.
  __device__ __forceinline__ void load_queries(std::uint32_t queries) {
    queries_ = queries;
    if constexpr (!kSharedQueries) {
#pragma unroll
      for (int m = 0; m < kMTiles; ++m) {
#pragma unroll
        for (int k = 0; k < kDim / 16; ++k) load_query(m, k, q_[m][k]);
      }
    }
  }

  // All rows of a unit into shared memory, by the whole block. The barrier at the end of a segment
  // has freed it.
  static __device__ __forceinline__ void store_queries(const DecodeParams& p, const Cursor& at,
                                                       unsigned char* queries) {
    constexpr int kPairs = kDim / 2;
    for (int i = worker_thread(); i < kMTiles * 16 * kPairs; i += 32 * kDecodeWarps) {
      const int row = i / kPairs;
      const int pair = i % kPairs;
      const RowPlace place = row_place(p, at.kv_head, at.row_block, row);
      const auto* source = reinterpret_cast<const std::uint32_t*>(
          static_cast<const std::uint16_t*>(p.q) + at.request * p.q_batch + place.token * p.q_row +
          place.head * p.q_head);
      const int offset = tile::swizzled_offset<kDim>(row, pair / 4) + pair % 4 * 4;
      *reinterpret_cast<std::uint32_t*>(queries + offset) = place.valid ? __ldg(source + pair) : 0u;
    }
  }

  // Forgets the last segment.
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int m = 0; m < kMTiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        max_[m][half] = -INFINITY;
        sum_[m][half] = 0.0f;
      }
#pragma unroll
      for (int n = 0; n < kDim / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) o_[m][n][i] = 0.0f;
      }
    }
  }

  // One tile: this warp's 16 keys from `key` on, in the stage at shared address `stage`.
  template <class At>
  __device__ __forceinline__ void multiply(const DecodeParams& p, const At& at, int key,
                                           std::uint32_t stage) {
    const int diagonal = at.span.kv_len - p.q_len;  // last key of token 0
    if (key >= at.span.kv_len) return;
    float s[kMTiles][2][4];
    scores(stage, s);
    // Every row sees every key of the tile: up to the first token's last key, from the last
    // token's first one.
    const bool inside = key + kKeys - 1 <= diagonal &&
                        (p.window_left < 0 || key >= diagonal + p.q_len - 1 - p.window_left);
    std::uint32_t weights[kMTiles][4];
#pragma unroll
    for (int m = 0; m < kMTiles; ++m) {
      scale(p, s[m]);
      if (!inside) mask(p, at, m, key, s[m]);
      soften(m, s[m], weights[m]);
    }
    if (inside || p.q_len == 1 || !any_infinite(stage + kTileBytes)) {
      accumulate(weights, stage + kTileBytes);
      return;
    }
#pragma unroll
    for (int m = 0; m < kMTiles; ++m) {
      accumulate_apart(p, at, m, key, weights[m], stage + kTileBytes);
    }
  }

  // Makes the output and lse of all rows NaN.
  __device__ __forceinline__ void spoil() {
#pragma unroll
    for (int m = 0; m < kMTiles; ++m) sum_[m][0] = sum_[m][1] = NAN;
  }

  // row_max, row_sum [16 * kMTiles]
  __device__ __forceinline__ void store_statistics(float* row_max, float* row_sum) {
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int m = 0; m < kMTiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float sum = tile::quad_sum(sum_[m][half]);
        if (lane % 4 != 0) continue;
        row_max[m * 16 + half * 8 + lane / 4] = max_[m][half];
        row_sum[m * 16 + half * 8 + lane / 4] = sum;
      }
    }
  }

  // m-tile m as [dim / 8][32 lanes] fragments.
  __device__ __forceinline__ void store_output(int m, float4* to) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
      to[n * 32 + lane] = make_float4(o_[m][n][0], o_[m][n][1], o_[m][n][2], o_[m][n][3]);
    }
  }

 private:
  // A of m-tile m, k-step k: rows 0-7 and 8-15 at chunk 2k, then at chunk 2k + 1.
  __device__ __forceinline__ void load_query(int m, int k, std::uint32_t (&a)[4]) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const std::uint32_t first = queries_ + tile::swizzled_offset<kDim>(lane % 16, lane / 16);
    ptx::ldmatrix_x4(a, (first ^ (k * 32)) + m * 16 * kDim * 2);
  }

  __device__ __forceinline__ void scores(std::uint32_t k_tile, float (&s)[kMTiles][2][4]) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    // Two partial sums of one m-tile, over even and odd k: shorter chains of dependent products.
    constexpr int kChains = kMTiles == 1 ? 2 : 1;
    float part[kChains][kMTiles][2][4] = {};
    // Matrices: keys 0-7 at chunk 2k and 2k + 1, then keys 8-15.
    const int row = lane % 8 + lane / 16 * 8;
    const std::uint32_t address = k_tile + tile::swizzled_offset<kDim>(row, lane / 8 % 2);
#pragma unroll
    for (int k = 0; k < kDim / 16; ++k) {
      std::uint32_t b[4];
      ptx::ldmatrix_x4(b, address ^ (k * 32));
#pragma unroll
      for (int m = 0; m < kMTiles; ++m) {
        std::uint32_t a[4];
        if constexpr (kSharedQueries) {
          load_query(m, k, a);
        } else {
#pragma unroll
          for (int i = 0; i < 4; ++i) a[i] = q_[m][k][i];
        }
        Element::mma(part[k % kChains][m][0], a, b[0], b[1]);
        Element::mma(part[k % kChains][m][1], a, b[2], b[3]);
      }
    }
#pragma unroll
    for (int m = 0; m < kMTiles; ++m) {
#pragma unroll
      for (int n = 0; n < 2; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          s[m][n][i] = part[0][m][n][i];
          if constexpr (kChains == 2) s[m][n][i] += part[1][m][n][i];
        }
      }
    }
  }

  static __device__ __forceinline__ void scale(const DecodeParams& p, float (&s)[2][4]) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        s[n][i] *= p.scale_log2;
      }
    }
    if (p.cap_log2 == 0.0f) return;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        // tanh x = 1 - 2 / (1 + e^2x), to 1e-7 of the cap; x = +-inf gives +-1.
        const float e = ptx::exp2_approx(s[n][i] * (2.0f * kLog2e));
        s[n][i] = p.cap_log2 * (1.0f - __fdividef(2.0f, 1.0f + e));
      }
    }
  }

  // Token of this lane's row of m-tile m, upper or lower half. Not kept: it is rarely needed.
  template <class At>
  static __device__ __forceinline__ int token_of(const DecodeParams& p, const At& at, int m,
                                                 int half) {
    const int row = m * 16 + half * 8 + static_cast<int>(threadIdx.x % 32) / 4;
    return (at.row_block * p.block_rows + row) / p.group;
  }

  template <class At>
  static __device__ __forceinline__ void mask(const DecodeParams& p, const At& at, int m, int key,
                                              float (&s)[2][4]) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    int last[2];
    for (int half = 0; half < 2; ++half) {
      last[half] = at.span.kv_len - p.q_len + token_of(p, at, m, half);
    }
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int column = key + n * 8 + lane % 4 * 2 + i % 2;
        if (!sees(p, last[i / 2], column)) s[n][i] = -INFINITY;
      }
    }
  }

  // Whether a row whose last key is `last` sees `key`.
  static __device__ __forceinline__ bool sees(const DecodeParams& p, int last, int key) {
    return key <= last && (p.window_left < 0 || key >= last - p.window_left);
  }

  // Scores to weights 2^(s - max), rescaling what was gathered when a maximum grew by more than the
  // slack: the maximum is only a common factor, and weights up to 2^slack lose nothing.
  __device__ __forceinline__ void soften(int m, float (&s)[2][4], std::uint32_t (&weights)[4]) {
    float top[2];  // of this lane's scores
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      top[half] = fmaxf(fmaxf(s[0][2 * half], s[0][2 * half + 1]),
                        fmaxf(s[1][2 * half], s[1][2 * half + 1]));
    }
    if (__any_sync(tile::kFullWarp, top[0] > max_[m][0] + kSlack || top[1] > max_[m][1] + kSlack)) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float grown = fmaxf(max_[m][half], tile::quad_max(top[half]));
        const float factor = ptx::exp2_approx(max_[m][half] - finite_base(grown));
        max_[m][half] = grown;
        sum_[m][half] *= factor;
#pragma unroll
        for (int n = 0; n < kDim / 8; ++n) {
          o_[m][n][2 * half] *= factor;
          o_[m][n][2 * half + 1] *= factor;
        }
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float base = finite_base(max_[m][half]);
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const float lo = ptx::exp2_approx(s[n][2 * half] - base);
        const float hi = ptx::exp2_approx(s[n][2 * half + 1] - base);
        sum_[m][half] += lo + hi;
        weights[2 * n + half] = Element::pack(lo, hi);
      }
    }
  }

  static __device__ __forceinline__ std::uint32_t v_address(std::uint32_t v_tile) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    // Matrices: keys 0-7 and 8-15 at chunk 2n, then at chunk 2n + 1.
    return v_tile + tile::swizzled_offset<kDim>(lane % 16, lane / 16);
  }

  __device__ __forceinline__ void accumulate(const std::uint32_t (&weights)[kMTiles][4],
                                             std::uint32_t v_tile) {
    const std::uint32_t address = v_address(v_tile);
#pragma unroll
    for (int n = 0; n < kDim / 16; ++n) {
      std::uint32_t b[4];
      ptx::ldmatrix_x4_trans(b, address ^ (n * 32));
#pragma unroll
      for (int m = 0; m < kMTiles; ++m) {
        Element::mma(o_[m][2 * n], weights[m], b[0], b[1]);
        Element::mma(o_[m][2 * n + 1], weights[m], b[2], b[3]);
      }
    }
  }

  // Whether some value of the tile is NaN or infinite: a weight of 0 does not hide such a one.
  static __device__ __forceinline__ bool any_infinite(std::uint32_t v_tile) {
    const std::uint32_t address = v_address(v_tile);
    constexpr std::uint32_t kLow = Element::kExponent;
    constexpr std::uint32_t kHigh = kLow << 16;
    bool found = false;
#pragma unroll
    for (int n = 0; n < kDim / 16; ++n) {
      std::uint32_t b[4];
      ptx::ldmatrix_x4_trans(b, address ^ (n * 32));
#pragma unroll
      for (int i = 0; i < 4; ++i) found |= (b[i] & kLow) == kLow || (b[i] & kHigh) == kHigh;
    }
    return __any_sync(tile::kFullWarp, found);
  }

  // The same where rows of such a tile see different keys: token by token, with the V rows that the
  // token may not see set to zero, so that what lies in them (NaN too) cannot reach its output.
  template <class At>
  __device__ __forceinline__ void accumulate_apart(const DecodeParams& p, const At& at, int m,
                                                   int key, const std::uint32_t (&weights)[4],
                                                   std::uint32_t v_tile) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const std::uint32_t address = v_address(v_tile);
    const int tokens[2] = {token_of(p, at, m, 0), token_of(p, at, m, 1)};
    const int first = key + lane % 4 * 2;  // this lane's B rows: first, first + 1, + 8, + 9
#pragma unroll
    for (int n = 0; n < kDim / 16; ++n) {
      std::uint32_t b[4];
      ptx::ldmatrix_x4_trans(b, address ^ (n * 32));
      for (int token = 0; token < p.q_len; ++token) {
        const int last = at.span.kv_len - p.q_len + token;
        const std::uint32_t upper = keep_pair(p, last, first);
        const std::uint32_t lower = keep_pair(p, last, first + 8);
        float c[2][4] = {};
        Element::mma(c[0], weights, b[0] & upper, b[1] & lower);
        Element::mma(c[1], weights, b[2] & upper, b[3] & lower);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          o_[m][2 * n][i] += tokens[i / 2] == token ? c[0][i] : 0.0f;
          o_[m][2 * n + 1][i] += tokens[i / 2] == token ? c[1][i] : 0.0f;
        }
      }
    }
  }

  // Mask of a packed pair: the halves whose keys, `key` and the next, the row sees.
  static __device__ __forceinline__ std::uint32_t keep_pair(const DecodeParams& p, int last,
                                                            int key) {
    return (sees(p, last, key) ? 0xffffu : 0u) | (sees(p, last, key + 1) ? 0xffff0000u : 0u);
  }

  std::uint32_t queries_;  // shared address of the query tile
  std::uint32_t q_[kSharedQueries ? 1 : kMTiles][kSharedQueries ? 1 : kDim / 16][4];
  float o_[kMTiles][kDim / 8][4];
  float max_[kMTiles][2];
  float sum_[kMTiles][2];  // this lane's columns only
};

}  // namespace tilegate::kernel
