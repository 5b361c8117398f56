// SPDX-License-Identifier: Apache-2.0
// All kernels of the CUDA backend in one table.
#include "backend/cuda/candidates.h"

#include "backend/cuda/attention/decode/decode.h"
#include "backend/cuda/attention/rows.h"

namespace tilegate {
namespace {

constexpr Candidate kCandidates[] = {
    {"cuda.decode", Backend::kCuda, decode_reject, decode_cost_us, decode_schedule, decode_launch},
    {"cuda.append", Backend::kCuda, append_reject, append_cost_us, row_schedule, append_launch},
    {"cuda.merge", Backend::kCuda, merge_reject, merge_cost_us, row_schedule, merge_launch},
};

}  // namespace

std::span<const Candidate> cuda_candidates() { return kCandidates; }

}  // namespace tilegate
