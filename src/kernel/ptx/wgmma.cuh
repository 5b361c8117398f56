// SPDX-License-Identifier: Apache-2.0
// wgmma m64nNk16 (sm_90a): 128 threads multiply A [64, 16] by B [16, N] from shared memory into
// fp32 registers, asynchronously. A comes from shared memory (a descriptor) or from registers (four
// words a thread, laid out as mma's A with 16 rows a warp). Thread i of the warpgroup holds, for
// n-tile j, c[4j .. 4j+3] as mma's C, rows 16 * (i / 32) .. + 15. Order: wgmma_fence, one or more
// wgmma, wgmma_commit, wgmma_wait<N>.
#pragma once

#include "kernel/ptx/arch.cuh"

namespace tilegate::ptx {

// Before the first wgmma of a batch, and whenever registers it reads or writes were touched.
__device__ __forceinline__ void wgmma_fence() {
#if TILEGATE_HAS_WGMMA
  asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
#endif
}

__device__ __forceinline__ void wgmma_commit() {
#if TILEGATE_HAS_WGMMA
  asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
#endif
}

template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
#if TILEGATE_HAS_WGMMA
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(kPending) : "memory");
#endif
}

// Descriptor of a tile in 128-byte-swizzled shared memory: rows of 64 16-bit elements, groups of
// eight rows 1024 bytes apart. The tile starts on a 1024-byte boundary; stepping k by 16 elements
// adds 32 bytes to the address. For an operand that is transposed on the way ("MN-major": its rows
// run along k), `leading_bytes` is the distance between blocks of 64 columns.
__device__ __forceinline__ std::uint64_t wgmma_descriptor(std::uint32_t address,
                                                          int leading_bytes = 16) {
  constexpr std::uint64_t kGroupBytes = 1024;
  constexpr std::uint64_t kSwizzle128 = 1;
  return static_cast<std::uint64_t>((address & 0x3ffffu) >> 4) |
         (static_cast<std::uint64_t>(leading_bytes >> 4) << 16) | ((kGroupBytes >> 4) << 32) |
         (kSwizzle128 << 62);
}

// Where B lives along k: rows of k contiguous (kK), or rows of n contiguous, transposed by the
// instruction (kMn).
enum class Major : int { kK = 0, kMn = 1 };

#define TILEGATE_C8(c, i)                                                                     \
  "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3]), "+f"(c[i + 4]), "+f"(c[i + 5]), \
      "+f"(c[i + 6]), "+f"(c[i + 7])
#define TILEGATE_C32(c, i) \
  TILEGATE_C8(c, i), TILEGATE_C8(c, i + 8), TILEGATE_C8(c, i + 16), TILEGATE_C8(c, i + 24)
#define TILEGATE_R32                                                                           \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24," \
  "%25,%26,%27,%28,%29,%30,%31"
#define TILEGATE_R64                                                                          \
  TILEGATE_R32                                                                                \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53," \
  "%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"

// One function a shape, type and source of A. `accumulate` 0 overwrites c.
#define TILEGATE_WGMMA_SS(N, REGS, REGLIST, OUT, PTXTYPE, NAME, A, B, P, M)                    \
  template <Major kMajorB = Major::kK>                                                         \
  __device__ __forceinline__ void wgmma_m64n##N##k16_##NAME(float(&c)[REGS], std::uint64_t a,  \
                                                            std::uint64_t b, int accumulate) { \
    asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, " P                                       \
                 ", 0;\n"                                                                      \
                 " wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." PTXTYPE "." PTXTYPE        \
                 " {" REGLIST "}, " A ", " B ", p, 1, 1, 0, " M ";\n}\n"                       \
                 : OUT                                                                         \
                 : "l"(a), "l"(b), "r"(accumulate), "n"(static_cast<int>(kMajorB)));           \
  }
#define TILEGATE_WGMMA_RS(N, REGS, REGLIST, OUT, PTXTYPE, NAME, A, B, P, M)             \
  template <Major kMajorB = Major::kK>                                                  \
  __device__ __forceinline__ void wgmma_m64n##N##k16_##NAME(                            \
      float(&c)[REGS], const std::uint32_t(&a)[4], std::uint64_t b, int accumulate) {   \
    asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, " P                                \
                 ", 0;\n"                                                               \
                 " wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." PTXTYPE "." PTXTYPE \
                 " {" REGLIST "}, " A ", " B ", p, 1, 1, " M ";\n}\n"                   \
                 : OUT                                                                  \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), \
                   "n"(static_cast<int>(kMajorB)));                                     \
  }

#if TILEGATE_HAS_WGMMA
TILEGATE_WGMMA_SS(64, 32, TILEGATE_R32, TILEGATE_C32(c, 0), "bf16", bf16, "%32", "%33", "%34",
                  "%35")
TILEGATE_WGMMA_SS(64, 32, TILEGATE_R32, TILEGATE_C32(c, 0), "f16", fp16, "%32", "%33", "%34", "%35")
TILEGATE_WGMMA_RS(64, 32, TILEGATE_R32, TILEGATE_C32(c, 0), "bf16", bf16_rs, "{%32,%33,%34,%35}",
                  "%36", "%37", "%38")
TILEGATE_WGMMA_RS(64, 32, TILEGATE_R32, TILEGATE_C32(c, 0), "f16", fp16_rs, "{%32,%33,%34,%35}",
                  "%36", "%37", "%38")
#define TILEGATE_C64 TILEGATE_C32(c, 0), TILEGATE_C32(c, 32)
TILEGATE_WGMMA_SS(128, 64, TILEGATE_R64, TILEGATE_C64, "bf16", bf16, "%64", "%65", "%66", "%67")
TILEGATE_WGMMA_SS(128, 64, TILEGATE_R64, TILEGATE_C64, "f16", fp16, "%64", "%65", "%66", "%67")
TILEGATE_WGMMA_RS(128, 64, TILEGATE_R64, TILEGATE_C64, "bf16", bf16_rs, "{%64,%65,%66,%67}", "%68",
                  "%69", "%70")
TILEGATE_WGMMA_RS(128, 64, TILEGATE_R64, TILEGATE_C64, "f16", fp16_rs, "{%64,%65,%66,%67}", "%68",
                  "%69", "%70")
#undef TILEGATE_C64
#endif

#undef TILEGATE_WGMMA_SS
#undef TILEGATE_WGMMA_RS
#undef TILEGATE_R64
#undef TILEGATE_R32
#undef TILEGATE_C32
#undef TILEGATE_C8

}  // namespace tilegate::ptx
