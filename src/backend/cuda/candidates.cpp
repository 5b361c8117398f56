// SPDX-License-Identifier: Apache-2.0
// All kernels of the CUDA backend in one table.
#include "backend/cuda/candidates.h"

#include "backend/cuda/attention/decode.h"

namespace tilegate {
namespace {

constexpr Candidate kCandidates[] = {
    {"cuda.decode", Backend::kCuda, decode_reject, decode_cost_us, decode_schedule, decode_launch},
};

}  // namespace

std::span<const Candidate> cuda_candidates() { return kCandidates; }

}  // namespace tilegate
