// SPDX-License-Identifier: Apache-2.0
// Chunk matrices for a decay per key channel (KDA, GDN-2), rows already loaded:
//   L_ij = sum_c e_ic k_jc G_ijc, j < i;  P_ij the same with q_i, j <= i;
//   G_ijc = d_{j+1,c} .. d_{i,c}
// Blocks of 16 rows. Inside a block G is multiplied up element by element. Across blocks it splits
// at block boundaries into head (start of i's block .. i) * whole blocks * tail (j + 1 .. end of
// j's block), each a product of numbers in [0, 1]: no exponent is ever positive, nothing
// overflows, and where a factor underflows the true product is zero too. Each factor is at most 16
// (or 4) roundings away from exact, whatever the gates are.
#if defined(TILEGATE_CPU_LINEAR_PREPARE_CHANNEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TILEGATE_CPU_LINEAR_PREPARE_CHANNEL_INL_H_
#undef TILEGATE_CPU_LINEAR_PREPARE_CHANNEL_INL_H_
#else
#define TILEGATE_CPU_LINEAR_PREPARE_CHANNEL_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "backend/cpu/linear/simd/head_rows-inl.h"
#include "backend/cpu/linear/simd/triangle-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tilegate::cpu_linear {
namespace HWY_NAMESPACE {

inline HWY_NOINLINE void load_channel_decays(const HeadView& h, std::int64_t sub, std::int64_t rows,
                                             const ChunkBuffers& b) {
  const std::int64_t pitch = b.dims.key_pitch();
  const std::int64_t n = h.p.householder;
  for (std::int64_t i = 0; i < round_up(rows, kBlock); ++i) {
    float* row = b.decay + i * pitch;
    const bool gated = i < rows && (sub + i) % n == 0;
    if (gated) decay_row(h, (sub + i) / n, pitch, b.rows, row);
    if (!gated) fill(row, pitch, 1.0f);
  }
}

// Column j of a diagonal block, kVecs vectors of channels from `at`, added to L and P.
template <int kVecs>
HWY_INLINE void diagonal_column(std::int64_t at, std::int64_t first, std::int64_t j,
                                std::int64_t rows, const ChunkBuffers& b) {
  const std::int64_t pitch = b.dims.key_pitch();
  Vec key[kVecs];
  Vec read = hn::Zero(F32());
  TILEGATE_UNROLL(8)
  for (int n = 0; n < kVecs; ++n) {
    key[n] = load(b.keys + (first + j) * pitch + at + n * kLanes);
    read = hn::MulAdd(load(b.query + (first + j) * pitch + at + n * kLanes), key[n], read);
  }
  b.reads[(first + j) * kChunk + first + j] += sum_lanes(read);
  for (std::int64_t i = j + 1; i < rows; ++i) {
    const std::int64_t row = (first + i) * pitch + at;
    Vec lower = hn::Zero(F32());
    read = hn::Zero(F32());
    TILEGATE_UNROLL(8)
    for (int n = 0; n < kVecs; ++n) {
      key[n] = hn::Mul(key[n], load(b.decay + row + n * kLanes));
      lower = hn::MulAdd(load(b.erase + row + n * kLanes), key[n], lower);
      read = hn::MulAdd(load(b.query + row + n * kLanes), key[n], read);
    }
    const std::int64_t to = (first + i) * kChunk + first + j;
    b.lower[to] += sum_lanes(lower);
    b.reads[to] += sum_lanes(read);
  }
}

// The 16 x 16 diagonal block of rows from `first`, of which `rows` hold tokens.
inline HWY_NOINLINE void diagonal_block(std::int64_t first, std::int64_t rows,
                                        const ChunkBuffers& b) {
  for (std::int64_t i = 0; i < kBlock; ++i) {
    fill(b.lower + (first + i) * kChunk + first, kBlock, 0.0f);
    fill(b.reads + (first + i) * kChunk + first, kBlock, 0.0f);
  }
  for (std::int64_t j = 0; j < rows; ++j) {
    std::int64_t at = 0;
    const std::int64_t end = b.dims.key_pitch();
    for (; at + 8 * kLanes <= end; at += 8 * kLanes) diagonal_column<8>(at, first, j, rows, b);
    for (; at + 2 * kLanes <= end; at += 2 * kLanes) diagonal_column<2>(at, first, j, rows, b);
    for (; at < end; at += kLanes) diagonal_column<1>(at, first, j, rows, b);
  }
}

// Scales a block's erase and query rows to the block's start, its keys to the block's end, and
// leaves the decay over the block.
inline HWY_NOINLINE void scale_block(std::int64_t block, const ChunkBuffers& b) {
  const std::int64_t pitch = b.dims.key_pitch();
  const std::int64_t first = block * kBlock;
  for (std::int64_t c = 0; c < pitch; c += kLanes) {
    Vec head = splat(1.0f);
    for (std::int64_t i = first; i < first + kBlock; ++i) {
      head = hn::Mul(head, load(b.decay + i * pitch + c));
      store(hn::Mul(load(b.erase + i * pitch + c), head), b.erase + i * pitch + c);
      store(hn::Mul(load(b.query + i * pitch + c), head), b.query + i * pitch + c);
    }
    Vec tail = splat(1.0f);
    for (std::int64_t j = first + kBlock - 1; j >= first; --j) {
      store(hn::Mul(load(b.keys + j * pitch + c), tail), b.keys + j * pitch + c);
      tail = hn::Mul(tail, load(b.decay + j * pitch + c));
    }
    store(tail, b.block_decay + block * pitch + c);
    store(hn::Mul(load(b.prefix_decay + block * pitch + c), tail),
          b.prefix_decay + (block + 1) * pitch + c);
  }
  for (std::int64_t j = first; j < first + kBlock; j += 4) {
    transpose_rows4(b.keys + j * pitch, pitch, b.dims.dim_k, b.keys_t + j, kChunk);
  }
}

// Moves tail_t from the end of block - 1 to the end of `block`.
inline HWY_NOINLINE void advance_tail(std::int64_t block, const ChunkBuffers& b) {
  const float* decay = b.block_decay + block * b.dims.key_pitch();
  const std::int64_t earlier = block * kBlock;
  for (std::int64_t k = 0; k < b.dims.dim_k; ++k) {
    float* row = b.tail_t + k * kChunk;
    const Vec factor = splat(decay[k]);
    for (std::int64_t j = 0; j < earlier; j += kLanes) {
      store(hn::Mul(load(row + j), factor), row + j);
    }
    std::copy_n(b.keys_t + k * kChunk + earlier, kBlock, row + earlier);
  }
}

inline HWY_NOINLINE void prepare_channel(std::int64_t rows, Queries queries,
                                         const ChunkBuffers& b) {
  const std::int64_t pitch = b.dims.key_pitch();
  fill(b.prefix_decay, pitch, 1.0f);
  for (std::int64_t block = 0; block * kBlock < rows; ++block) {
    const std::int64_t first = block * kBlock;
    diagonal_block(first, std::min(kBlock, rows - first), b);
    scale_block(block, b);
    Gemm earlier = {.a = b.erase + first * pitch,
                    .lda = pitch,
                    .b = b.tail_t,
                    .ldb = kChunk,
                    .c = b.lower + first * kChunk,
                    .ldc = kChunk,
                    .depth = b.dims.dim_k};
    gemm_columns(earlier, kBlock, first);
    if (queries == Queries::kLoad) {
      earlier.a = b.query + first * pitch;
      earlier.c = b.reads + first * kChunk;
      gemm_columns(earlier, kBlock, first);
    }
    const float* prefix = b.prefix_decay + block * pitch;
    for (std::int64_t i = first; i < first + kBlock; ++i) {
      multiply_rows(b.erase + i * pitch, prefix, pitch, b.erase + i * pitch);
      multiply_rows(b.query + i * pitch, prefix, pitch, b.query + i * pitch);
    }
    advance_tail(block, b);
  }
}

// tail_t at the end of block `blocks - 1`, from scratch, by the same multiplications.
HWY_INLINE void channel_tail(std::int64_t blocks, const ChunkBuffers& b) {
  for (std::int64_t block = 0; block < blocks; ++block) advance_tail(block, b);
}

}  // namespace HWY_NAMESPACE
}  // namespace tilegate::cpu_linear
HWY_AFTER_NAMESPACE();

#endif  // TILEGATE_CPU_LINEAR_PREPARE_CHANNEL_INL_H_
