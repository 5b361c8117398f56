// SPDX-License-Identifier: Apache-2.0
// How the V rows of a (sequence, head) are dealt to blocks, and the kernels that are built: one
// table for planner and launcher. Bits of a row do not depend on the deal.
#pragma once

#include <cstdint>

#include "backend/cuda/linear/decode_launch.h"
#include "backend/cuda/linear/token/launch.h"

namespace tilegate {

// A warp's tile is 4 KB of fp32 states or 2 KB of 16-bit ones, whatever K is.
struct DeltaTile {
  int warps;          // of a block
  int tiles;          // that a warp takes one after the other
  int element_bytes;  // of the states; 0: any
  int steps;          // updates a sequence, at least
  // Elements of all states an SM, at least. The last entry that fits is taken.
  std::int64_t elements_per_sm;
};

// Measured on an H200 with 16/32 heads of 128 x 128 (docs/results). Few states: many small blocks
// (1 sequence: 4.4 us; two tiles a warp 4.9). Many: 16 KB of states a block, copied at once, and
// few warps, so that the steps are prepared seldom (64 sequences, fp32 71 us against 77 with one
// tile; bf16 43 against 57). Several tokens: more warps share their preparation (64 sequences of 4
// tokens, fp32 115 against 134; bf16 88 against 103).
inline constexpr DeltaTile kDeltaTiles[] = {
    {4, 1, 0, 1, 0},
    {2, 2, 4, 1, 16 * 1024},
    {2, 4, 2, 1, 16 * 1024},
    {4, 2, 0, 2, 16 * 1024},
};

inline constexpr DeltaKernel kDeltaKernels[] = {
    kDeltaKernel<StateForm::kFp32, 64>,   kDeltaKernel<StateForm::kFp32, 128>,
    kDeltaKernel<StateForm::kFp32, 256>,  kDeltaKernel<StateForm::kBf16, 64>,
    kDeltaKernel<StateForm::kBf16, 128>,  kDeltaKernel<StateForm::kBf16, 256>,
    kDeltaKernel<StateForm::kFp16, 64>,   kDeltaKernel<StateForm::kFp16, 128>,
    kDeltaKernel<StateForm::kFp16, 256>,  kDeltaKernel<StateForm::kTyped, 32>,
    kDeltaKernel<StateForm::kTyped, 64>,  kDeltaKernel<StateForm::kTyped, 128>,
    kDeltaKernel<StateForm::kTyped, 256>,
};

// The kernel of this form, or the typed one; null when none is built for this K.
constexpr const DeltaKernel* find_delta_kernel(StateForm form, std::int64_t dim_k) {
  const DeltaKernel* found = nullptr;
  for (const DeltaKernel& kernel : kDeltaKernels) {
    if (kernel.dim_k != dim_k) continue;
    if (kernel.form == form) return &kernel;
    if (kernel.form == StateForm::kTyped) found = &kernel;
  }
  return found;
}

// Elements of all states up to which the kernel for one token is taken; a form without an entry
// takes it at any size. Measured on an H200 with 32 states of 128 x 128 a sequence (docs/results):
// fp32 with 64 sequences 70.7 us, with the kernel whose warps share their steps 71.8; with 256
// sequences 277.2 against 270.9, so the bound is between. bf16 144 in both with 256.
struct TokenLimit {
  StateForm form;
  std::int64_t elements;
};
inline constexpr TokenLimit kTokenLimits[] = {
    {StateForm::kFp32, std::int64_t{4096} * 128 * 128},
};

constexpr bool within_token_limit(StateForm form, std::int64_t elements) {
  for (const TokenLimit& limit : kTokenLimits) {
    if (limit.form == form && elements > limit.elements) return false;
  }
  return true;
}

inline constexpr TokenKernel kTokenKernels[] = {
    kTokenKernel<StateForm::kFp32, kernel::ElementKind::kBf16, 64, false>,
    kTokenKernel<StateForm::kFp32, kernel::ElementKind::kBf16, 64, true>,
    kTokenKernel<StateForm::kFp32, kernel::ElementKind::kBf16, 128, false>,
    kTokenKernel<StateForm::kFp32, kernel::ElementKind::kBf16, 128, true>,
    kTokenKernel<StateForm::kFp32, kernel::ElementKind::kBf16, 256, false>,
    kTokenKernel<StateForm::kFp32, kernel::ElementKind::kBf16, 256, true>,
    kTokenKernel<StateForm::kFp32, kernel::ElementKind::kFp16, 64, false>,
    kTokenKernel<StateForm::kFp32, kernel::ElementKind::kFp16, 64, true>,
    kTokenKernel<StateForm::kFp32, kernel::ElementKind::kFp16, 128, false>,
    kTokenKernel<StateForm::kFp32, kernel::ElementKind::kFp16, 128, true>,
    kTokenKernel<StateForm::kFp32, kernel::ElementKind::kFp16, 256, false>,
    kTokenKernel<StateForm::kFp32, kernel::ElementKind::kFp16, 256, true>,
    kTokenKernel<StateForm::kBf16, kernel::ElementKind::kBf16, 64, false>,
    kTokenKernel<StateForm::kBf16, kernel::ElementKind::kBf16, 64, true>,
    kTokenKernel<StateForm::kBf16, kernel::ElementKind::kBf16, 128, false>,
    kTokenKernel<StateForm::kBf16, kernel::ElementKind::kBf16, 128, true>,
    kTokenKernel<StateForm::kBf16, kernel::ElementKind::kBf16, 256, false>,
    kTokenKernel<StateForm::kBf16, kernel::ElementKind::kBf16, 256, true>,
    kTokenKernel<StateForm::kFp16, kernel::ElementKind::kFp16, 64, false>,
    kTokenKernel<StateForm::kFp16, kernel::ElementKind::kFp16, 64, true>,
    kTokenKernel<StateForm::kFp16, kernel::ElementKind::kFp16, 128, false>,
    kTokenKernel<StateForm::kFp16, kernel::ElementKind::kFp16, 128, true>,
    kTokenKernel<StateForm::kFp16, kernel::ElementKind::kFp16, 256, false>,
    kTokenKernel<StateForm::kFp16, kernel::ElementKind::kFp16, 256, true>,
};

constexpr const TokenKernel* find_token_kernel(StateForm form, kernel::ElementKind token,
                                               std::int64_t dim_k, bool per_channel) {
  for (const TokenKernel& kernel : kTokenKernels) {
    if (kernel.form == form && kernel.token == token && kernel.dim_k == dim_k &&
        kernel.per_channel == per_channel) {
      return &kernel;
    }
  }
  return nullptr;
}

}  // namespace tilegate
