// SPDX-License-Identifier: Apache-2.0
// Decode with units of clusters in bf16: the instantiations of kDecodeConfigs.
#include "backend/cuda/attention/decode/unit_launch.cuh"

namespace tilegate {

template cudaError_t launch_decode_unit<DType::kBFloat16, 64, 5>(const kernel::DecodeParams&,
                                                                 const DecodeGrid&, cudaStream_t);
template cudaError_t launch_decode_unit<DType::kBFloat16, 128, 3>(const kernel::DecodeParams&,
                                                                  const DecodeGrid&, cudaStream_t);

}  // namespace tilegate
