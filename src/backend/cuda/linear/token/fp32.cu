// SPDX-License-Identifier: Apache-2.0
// Delta-rule decode of one token a sequence with fp32 states: instantiations of kTokenKernels.
#include "backend/cuda/linear/token/launch.cuh"

namespace tilegate {

using Params = kernel::DeltaDecodeParams;
using kernel::ElementKind;

template cudaError_t launch_token_decode<StateForm::kFp32, ElementKind::kBf16, 64, false>(
    const Params&, const DeltaGrid&, cudaStream_t);
template cudaError_t launch_token_decode<StateForm::kFp32, ElementKind::kBf16, 64, true>(
    const Params&, const DeltaGrid&, cudaStream_t);
template cudaError_t launch_token_decode<StateForm::kFp32, ElementKind::kBf16, 128, false>(
    const Params&, const DeltaGrid&, cudaStream_t);
template cudaError_t launch_token_decode<StateForm::kFp32, ElementKind::kBf16, 128, true>(
    const Params&, const DeltaGrid&, cudaStream_t);
template cudaError_t launch_token_decode<StateForm::kFp32, ElementKind::kBf16, 256, false>(
    const Params&, const DeltaGrid&, cudaStream_t);
template cudaError_t launch_token_decode<StateForm::kFp32, ElementKind::kBf16, 256, true>(
    const Params&, const DeltaGrid&, cudaStream_t);
template cudaError_t launch_token_decode<StateForm::kFp32, ElementKind::kFp16, 64, false>(
    const Params&, const DeltaGrid&, cudaStream_t);
template cudaError_t launch_token_decode<StateForm::kFp32, ElementKind::kFp16, 64, true>(
    const Params&, const DeltaGrid&, cudaStream_t);
template cudaError_t launch_token_decode<StateForm::kFp32, ElementKind::kFp16, 128, false>(
    const Params&, const DeltaGrid&, cudaStream_t);
template cudaError_t launch_token_decode<StateForm::kFp32, ElementKind::kFp16, 128, true>(
    const Params&, const DeltaGrid&, cudaStream_t);
template cudaError_t launch_token_decode<StateForm::kFp32, ElementKind::kFp16, 256, false>(
    const Params&, const DeltaGrid&, cudaStream_t);
template cudaError_t launch_token_decode<StateForm::kFp32, ElementKind::kFp16, 256, true>(
    const Params&, const DeltaGrid&, cudaStream_t);

}  // namespace tilegate
