// SPDX-License-Identifier: Apache-2.0
// All kernels of the CUDA backend in one table.
#include "backend/cuda/candidates.h"

namespace tilegate {

std::span<const Candidate> cuda_candidates() { return {}; }

}  // namespace tilegate
