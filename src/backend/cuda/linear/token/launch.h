// SPDX-License-Identifier: Apache-2.0
// Launches of the kernel for one token a sequence (kernel/linear/token_decode.cuh). A row of
// kTokenKernels (tiles.h) is one instantiation, made in <form>.cu; a row without it does not
// link.
#pragma once

#include <cstdint>

#include "backend/cuda/linear/decode_launch.h"

namespace tilegate {

// How the rows of a head are dealt, found on an H200 with 16/32 heads of 128 x 128
// (docs/design/delta_decode.md). Bits of a row do not depend on it.
inline constexpr int kTokenWarps = 2;                                  // of a block
constexpr int token_passes(int dim_k) { return dim_k > 128 ? 2 : 4; }  // rows of a lane
constexpr int token_rows_of_block(int dim_k) { return 4 * token_passes(dim_k) * kTokenWarps; }

// Token: of q, k, v and o.
template <StateForm kForm, kernel::ElementKind kToken, int kDimK, bool kChannel>
cudaError_t launch_token_decode(const kernel::DeltaDecodeParams& params, const DeltaGrid& grid,
                                cudaStream_t stream);

struct TokenKernel {
  StateForm form;
  kernel::ElementKind token;
  int dim_k;
  bool per_channel;  // the gate
  cudaError_t (*launch)(const kernel::DeltaDecodeParams&, const DeltaGrid&, cudaStream_t);
};

template <StateForm kForm, kernel::ElementKind kToken, int kDimK, bool kChannel>
inline constexpr TokenKernel kTokenKernel = {kForm, kToken, kDimK, kChannel,
                                             &launch_token_decode<kForm, kToken, kDimK, kChannel>};

}  // namespace tilegate
