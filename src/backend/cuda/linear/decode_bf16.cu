// SPDX-License-Identifier: Apache-2.0
// Delta-rule decode with bf16 states: instantiations of kDeltaKernels.
#include "backend/cuda/linear/decode_launch.cuh"

namespace tilegate {

using Params = kernel::DeltaDecodeParams;

template cudaError_t launch_delta_decode<StateForm::kBf16, 64>(const Params&, const DeltaGrid&,
                                                               cudaStream_t);
template cudaError_t launch_delta_decode<StateForm::kBf16, 128>(const Params&, const DeltaGrid&,
                                                                cudaStream_t);
template cudaError_t launch_delta_decode<StateForm::kBf16, 256>(const Params&, const DeltaGrid&,
                                                                cudaStream_t);

}  // namespace tilegate
