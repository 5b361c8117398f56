// SPDX-License-Identifier: Apache-2.0
// The wrappers that matrix kernels stand on, one product each: C [M, N] = A [M, K] * B [N, K]^T in
// bf16 with small integers, so that every answer is exact.
//   mma     one warp, cp.async into swizzled tiles, ldmatrix
//   wgmma   one warpgroup, TMA into swizzled tiles on an mbarrier; A from shared memory and
//   registers,
//           B row-major along k and along n
#include <gtest/gtest.h>

#include "backend/cuda/tensor_map.h"
#include "core/half.h"
#include "kernel/pipe/ring.cuh"
#include "kernel/ptx/cp_async.cuh"
#include "kernel/ptx/mbarrier.cuh"
#include "kernel/ptx/mma.cuh"
#include "kernel/ptx/tma.cuh"
#include "kernel/ptx/wgmma.cuh"
#include "kernel/tile/swizzle.cuh"
#include "tests/gpu/device.h"

namespace tilegate::test {
namespace {

constexpr int kK = 64;

std::vector<BFloat16> small_integers(int count, std::uint64_t seed) {
  Random random(seed);
  std::vector<BFloat16> values(count);
  for (BFloat16& x : values) x = from_float<BFloat16>(static_cast<float>(random.below(9) - 4));
  return values;
}

// a [m, k], b [n, k].
std::vector<float> product(const std::vector<BFloat16>& a, const std::vector<BFloat16>& b, int m,
                           int n) {
  std::vector<float> c(m * n, 0.0f);
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j)
      for (int k = 0; k < kK; ++k)
        c[i * n + j] += to_float(a[i * kK + k]) * to_float(b[j * kK + k]);
  return c;
}

// One warp: C [16, 16] = A [16, 64] * B [16, 64]^T.
__global__ void mma_kernel(const std::uint16_t* a, const std::uint16_t* b, float* c) {
  __shared__ alignas(128) unsigned char tiles[2][16 * kK * 2];
  const int lane = static_cast<int>(threadIdx.x);
  const std::uint32_t base_a = ptx::shared_address(tiles[0]);
  const std::uint32_t base_b = ptx::shared_address(tiles[1]);
  for (int i = lane; i < 16 * 8; i += 32) {
    const int row = i / 8;
    const int chunk = i % 8;
    const int offset = tile::swizzled_offset<kK>(row, chunk);
    ptx::cp_async_16(base_a + offset, a + row * kK + chunk * 8, 16);
    ptx::cp_async_16(base_b + offset, b + row * kK + chunk * 8, 16);
  }
  ptx::cp_async_commit();
  ptx::cp_async_wait<0>();
  __syncwarp();
  float acc[2][4] = {};
  for (int k = 0; k < kK / 16; ++k) {
    std::uint32_t fa[4];
    std::uint32_t fb[4];
    // A: matrices (rows 0-7, k), (rows 8-15, k), (rows 0-7, k + 8), (rows 8-15, k + 8).
    ptx::ldmatrix_x4(fa, base_a + tile::swizzled_offset<kK>(lane % 16, 2 * k + lane / 16));
    // B: (n 0-7, k), (n 0-7, k + 8), (n 8-15, k), (n 8-15, k + 8).
    const int row = lane % 8 + lane / 16 * 8;
    ptx::ldmatrix_x4(fb, base_b + tile::swizzled_offset<kK>(row, 2 * k + lane / 8 % 2));
    ptx::mma_m16n8k16_bf16(acc[0], fa, fb[0], fb[1]);
    ptx::mma_m16n8k16_bf16(acc[1], fa, fb[2], fb[3]);
  }
  for (int n = 0; n < 2; ++n) {
    for (int i = 0; i < 4; ++i) {
      c[(lane / 4 + i / 2 * 8) * 16 + n * 8 + lane % 4 * 2 + i % 2] = acc[n][i];
    }
  }
}

TEST(Ptx, MmaWithLdmatrixMultiplies) {
  TILEGATE_REQUIRE_GPU(80);
  const auto a = small_integers(16 * kK, 1);
  const auto b = small_integers(16 * kK, 2);
  const DeviceVector<BFloat16> da(a);
  const DeviceVector<BFloat16> db(b);
  const DeviceVector<float> dc(std::vector<float>(256, -1.0f));
  mma_kernel<<<1, 32>>>(reinterpret_cast<std::uint16_t*>(da.data()),
                        reinterpret_cast<std::uint16_t*>(db.data()), dc.data());
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(dc.read(), product(a, b, 16, 16));
}

enum class Source { kShared, kRegisters };

// One warpgroup: C [64, N] = A [64, 64] * B^T. kK: b is [N, 64]; kMn: b is [64, N].
template <int kN, Source kSource, ptx::Major kMajor>
__global__ void wgmma_kernel(const __grid_constant__ CUtensorMap map_a,
                             const __grid_constant__ CUtensorMap map_b, float* c) {
#if TILEGATE_HAS_WGMMA
  __shared__ alignas(1024) unsigned char tile_a[64 * kK * 2];
  __shared__ alignas(1024) unsigned char tile_b[kN * kK * 2];
  __shared__ alignas(8) std::uint64_t full;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const std::uint32_t barrier = ptx::shared_address(&full);
  const std::uint32_t base_a = ptx::shared_address(tile_a);
  const std::uint32_t base_b = ptx::shared_address(tile_b);
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(barrier, 1);
    ptx::mbarrier_fence_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::tma_prefetch_map(&map_a);
    ptx::mbarrier_arrive_expect(barrier, (64 + kN) * kK * 2);
    ptx::tma_load_2d(base_a, &map_a, barrier, 0, 0);
    if (kMajor == ptx::Major::kK) {
      ptx::tma_load_2d(base_b, &map_b, barrier, 0, 0);
    } else {
      for (int n = 0; n < kN; n += 64) {
        ptx::tma_load_2d(base_b + n * kK * 2, &map_b, barrier, n, 0);
      }
    }
  }
  const pipe::Ring<1> ring;
  ptx::mbarrier_wait(barrier, ring.parity());

  float acc[kN / 2];
  for (float& x : acc) x = 0.0f;
  std::uint32_t fa[kK / 16][4];
  for (int k = 0; k < kK / 16; ++k) {
    const int row = warp * 16 + lane % 16;
    ptx::ldmatrix_x4(fa[k], base_a + tile::swizzled_offset<kK>(row, 2 * k + lane / 16));
  }
  ptx::wgmma_fence();
#pragma unroll
  for (int k = 0; k < kK / 16; ++k) {
    // Along k: 32 bytes further in the swizzled row. Along n: 16 rows of 128 bytes further.
    const int step = kMajor == ptx::Major::kK ? k * 32 : k * 16 * 128;
    const std::uint64_t b = ptx::wgmma_descriptor(base_b + step, kK * 128);
    if constexpr (kSource == Source::kShared) {
      const std::uint64_t a = ptx::wgmma_descriptor(base_a + k * 32);
      if constexpr (kN == 64) ptx::wgmma_m64n64k16_bf16<kMajor>(acc, a, b, 1);
      if constexpr (kN == 128) ptx::wgmma_m64n128k16_bf16<kMajor>(acc, a, b, 1);
    } else {
      if constexpr (kN == 64) ptx::wgmma_m64n64k16_bf16_rs<kMajor>(acc, fa[k], b, 1);
      if constexpr (kN == 128) ptx::wgmma_m64n128k16_bf16_rs<kMajor>(acc, fa[k], b, 1);
    }
  }
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>();
  for (int j = 0; j < kN / 8; ++j) {
    for (int i = 0; i < 4; ++i) {
      const int row = warp * 16 + lane / 4 + i / 2 * 8;
      c[row * kN + j * 8 + lane % 4 * 2 + i % 2] = acc[4 * j + i];
    }
  }
#endif
}

CUtensorMap map_of(void* data, int rows, int columns, int box_rows) {
  TensorMapShape shape;
  shape.data = data;
  shape.rank = 2;
  shape.dims = {static_cast<std::uint64_t>(columns), static_cast<std::uint64_t>(rows)};
  shape.strides = {1, static_cast<std::uint64_t>(columns)};
  shape.box = {64, static_cast<std::uint32_t>(box_rows)};
  CUtensorMap map;
  EXPECT_TRUE(make_tensor_map(shape, &map).ok());
  return map;
}

template <int kN, Source kSource, ptx::Major kMajor>
void check_wgmma() {
  if (compute_capability() != 90) GTEST_SKIP() << "needs sm_90";
  const auto a = small_integers(64 * kK, 3);
  const auto b = small_integers(kN * kK, 4);
  std::vector<BFloat16> stored = b;
  if (kMajor == ptx::Major::kMn) {
    for (int n = 0; n < kN; ++n)
      for (int k = 0; k < kK; ++k) stored[k * kN + n] = b[n * kK + k];
  }
  const DeviceVector<BFloat16> da(a);
  const DeviceVector<BFloat16> db(stored);
  const DeviceVector<float> dc(std::vector<float>(64 * kN, -1.0f));
  const CUtensorMap map_a = map_of(da.data(), 64, kK, 64);
  const CUtensorMap map_b =
      kMajor == ptx::Major::kK ? map_of(db.data(), kN, kK, kN) : map_of(db.data(), kK, kN, kK);
  wgmma_kernel<kN, kSource, kMajor><<<1, 128>>>(map_a, map_b, dc.data());
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(dc.read(), product(a, b, 64, kN));
}

TEST(Ptx, WgmmaN64FromShared) { check_wgmma<64, Source::kShared, ptx::Major::kK>(); }
TEST(Ptx, WgmmaN128FromShared) { check_wgmma<128, Source::kShared, ptx::Major::kK>(); }
TEST(Ptx, WgmmaN128FromRegisters) { check_wgmma<128, Source::kRegisters, ptx::Major::kK>(); }
TEST(Ptx, WgmmaN64Transposed) { check_wgmma<64, Source::kRegisters, ptx::Major::kMn>(); }
TEST(Ptx, WgmmaN128Transposed) { check_wgmma<128, Source::kShared, ptx::Major::kMn>(); }

// A 4-d box of a paged cache: [pages, slots, heads, dim], one page of one head.
__global__ void tma_4d_kernel(const __grid_constant__ CUtensorMap map, int head, int page,
                              std::uint16_t* out) {
#if TILEGATE_HAS_SM90
  __shared__ alignas(1024) std::uint16_t tile[8 * 64];
  __shared__ alignas(8) std::uint64_t full;
  const std::uint32_t barrier = ptx::shared_address(&full);
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(barrier, 1);
    ptx::mbarrier_fence_init();
    ptx::mbarrier_arrive_expect(barrier, sizeof(tile));
    ptx::tma_load_4d(ptx::shared_address(tile), &map, barrier, 0, head, 0, page);
  }
  __syncthreads();
  ptx::mbarrier_wait(barrier, 0);
  for (int i = static_cast<int>(threadIdx.x); i < 8 * 64; i += 32) {
    out[i] = tile[tile::swizzled_offset<64>(i / 64, i % 64 / 8) / 2 + i % 8];
  }
#endif
}

TEST(Ptx, TmaLoadsOnePageOfOneHead) {
  TILEGATE_REQUIRE_GPU(90);
  constexpr int kPages = 3, kSlots = 8, kHeads = 5, kDim = 64;
  std::vector<std::uint16_t> cache(kPages * kSlots * kHeads * kDim);
  for (std::size_t i = 0; i < cache.size(); ++i) cache[i] = static_cast<std::uint16_t>(i);
  const DeviceVector<std::uint16_t> device_cache(cache);
  const DeviceVector<std::uint16_t> out(std::vector<std::uint16_t>(kSlots * kDim, 0));
  TensorMapShape shape;
  shape.data = device_cache.data();
  shape.rank = 4;
  shape.dims = {kDim, kHeads, kSlots, kPages};
  shape.strides = {1, kDim, kHeads * kDim, kSlots * kHeads * kDim};
  shape.box = {kDim, 1, kSlots, 1};
  CUtensorMap map;
  ASSERT_TRUE(make_tensor_map(shape, &map).ok());
  tma_4d_kernel<<<1, 32>>>(map, 3, 2, out.data());
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const std::vector<std::uint16_t> got = out.read();
  for (int slot = 0; slot < kSlots; ++slot) {
    for (int d = 0; d < kDim; ++d) {
      ASSERT_EQ(got[slot * kDim + d], cache[((2 * kSlots + slot) * kHeads + 3) * kDim + d]);
    }
  }
}

}  // namespace
}  // namespace tilegate::test
