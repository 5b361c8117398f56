// SPDX-License-Identifier: Apache-2.0
// Delta-rule decode with states typed at run time: instantiations of kDeltaKernels.
#include "backend/cuda/linear/decode_launch.cuh"

namespace tilegate {

using Params = kernel::DeltaDecodeParams;

template cudaError_t launch_delta_decode<StateForm::kTyped, 32>(const Params&, const DeltaGrid&,
                                                                cudaStream_t);
template cudaError_t launch_delta_decode<StateForm::kTyped, 64>(const Params&, const DeltaGrid&,
                                                                cudaStream_t);
template cudaError_t launch_delta_decode<StateForm::kTyped, 128>(const Params&, const DeltaGrid&,
                                                                 cudaStream_t);
template cudaError_t launch_delta_decode<StateForm::kTyped, 256>(const Params&, const DeltaGrid&,
                                                                 cudaStream_t);

}  // namespace tilegate
