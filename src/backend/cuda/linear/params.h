// SPDX-License-Identifier: Apache-2.0
// From a delta-rule problem with pointers to what the decode kernels take.
#pragma once

#include "backend/cuda/linear/decode_launch.h"
#include "problem/linear.h"

namespace tilegate {

// All but the division into blocks.
kernel::DeltaDecodeParams delta_decode_params(const LinearProblem& p);
kernel::CommitParams commit_params(const CommitProblem& p);

// The form of kernel that the states' types, strides and addresses allow.
StateForm state_form(const LinearProblem& p);

}  // namespace tilegate
