// SPDX-License-Identifier: Apache-2.0
// Decode in fp16: the instantiations of kDecodeConfigs.
#include "backend/cuda/attention/decode_launch.cuh"

namespace tilegate {

template cudaError_t launch_decode<DType::kFloat16, 64, 1, 5>(const kernel::DecodeParams&,
                                                              const DecodeGrid&, cudaStream_t);
template cudaError_t launch_decode<DType::kFloat16, 64, 2, 6>(const kernel::DecodeParams&,
                                                              const DecodeGrid&, cudaStream_t);
template cudaError_t launch_decode<DType::kFloat16, 128, 1, 3>(const kernel::DecodeParams&,
                                                               const DecodeGrid&, cudaStream_t);
template cudaError_t launch_decode<DType::kFloat16, 128, 2, 3>(const kernel::DecodeParams&,
                                                               const DecodeGrid&, cudaStream_t);
template cudaError_t launch_decode<DType::kFloat16, 256, 1, 3>(const kernel::DecodeParams&,
                                                               const DecodeGrid&, cudaStream_t);

}  // namespace tilegate
