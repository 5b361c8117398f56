// SPDX-License-Identifier: Apache-2.0
// Decode in fp16: the instantiations of kDecodeConfigs.
#include "backend/cuda/attention/decode/launch.cuh"

namespace tilegate {

template cudaError_t launch_decode<DType::kFloat16, 64, 8, 5>(const kernel::DecodeParams&,
                                                              const DecodeGrid&, cudaStream_t);
template cudaError_t launch_decode<DType::kFloat16, 64, 16, 5>(const kernel::DecodeParams&,
                                                               const DecodeGrid&, cudaStream_t);
template cudaError_t launch_decode<DType::kFloat16, 64, 32, 6>(const kernel::DecodeParams&,
                                                               const DecodeGrid&, cudaStream_t);
template cudaError_t launch_decode<DType::kFloat16, 128, 8, 3>(const kernel::DecodeParams&,
                                                               const DecodeGrid&, cudaStream_t);
template cudaError_t launch_decode<DType::kFloat16, 128, 16, 3>(const kernel::DecodeParams&,
                                                                const DecodeGrid&, cudaStream_t);
template cudaError_t launch_decode<DType::kFloat16, 128, 32, 3>(const kernel::DecodeParams&,
                                                                const DecodeGrid&, cudaStream_t);
template cudaError_t launch_decode<DType::kFloat16, 256, 8, 3>(const kernel::DecodeParams&,
                                                               const DecodeGrid&, cudaStream_t);
template cudaError_t launch_decode<DType::kFloat16, 256, 16, 3>(const kernel::DecodeParams&,
                                                                const DecodeGrid&, cudaStream_t);

}  // namespace tilegate
