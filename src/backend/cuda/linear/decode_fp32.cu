// SPDX-License-Identifier: Apache-2.0
// Delta-rule decode with fp32 states: instantiations of kDeltaKernels.
#include "backend/cuda/linear/decode_launch.cuh"

namespace tilegate {

using Params = kernel::DeltaDecodeParams;

template cudaError_t launch_delta_decode<StateForm::kFp32, 64>(const Params&, const DeltaGrid&,
                                                               cudaStream_t);
template cudaError_t launch_delta_decode<StateForm::kFp32, 128>(const Params&, const DeltaGrid&,
                                                                cudaStream_t);
template cudaError_t launch_delta_decode<StateForm::kFp32, 256>(const Params&, const DeltaGrid&,
                                                                cudaStream_t);

}  // namespace tilegate
