// SPDX-License-Identifier: Apache-2.0
// Launch of the kernel for one token a sequence: an instantiation and the registers it may take. A
// launch may be captured and may begin while its predecessor ends (launch.cuh).
#pragma once

#include <type_traits>

#include "backend/cuda/linear/launch.cuh"
#include "backend/cuda/linear/token/launch.h"
#include "kernel/linear/token_decode.cuh"

namespace tilegate {

// Blocks an SM that the registers leave room for: as many as need no spill.
constexpr int token_blocks_per_sm(int dim_k) { return (dim_k > 128 ? 12 : 16) / kTokenWarps; }

template <StateForm kForm, kernel::ElementKind kToken, int kDimK, bool kChannel>
cudaError_t launch_token_decode(const kernel::DeltaDecodeParams& params, const DeltaGrid& grid,
                                cudaStream_t stream) {
  constexpr bool kBf16 = kToken == kernel::ElementKind::kBf16;
  using State = typename StateOf<kForm>::type;
  using Token = std::conditional_t<kBf16, tile::Bf16, tile::Fp16>;
  const auto decode =
      kernel::token_decode_kernel<State, Token, kDimK, kChannel, token_passes(kDimK), kTokenWarps,
                                  token_blocks_per_sm(kDimK)>;
  return launch_overlapped(decode, params, grid, stream);
}

}  // namespace tilegate
