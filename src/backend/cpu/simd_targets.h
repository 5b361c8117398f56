// SPDX-License-Identifier: Apache-2.0
// Instruction sets that SIMD files are compiled for: the baseline, AVX2 and AVX-512 on x86, what
// the compiler is asked for elsewhere. Include it before any Highway header, in every file that
// uses Highway: all of them must agree, and each set costs compile time. Sets with vectors of
// unknown size are out: kernels keep arrays of vectors in registers.
#pragma once

#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
