// SPDX-License-Identifier: Apache-2.0
// Estimated time of an attention problem in cuDNN, from times measured on one GPU and scaled to
// others by their SMs and bandwidth.
#pragma once

#include "plan/candidate.h"

namespace tilegate::cudnn {

double cost_us(const AttentionProblem& p, const DeviceFacts& facts);

}  // namespace tilegate::cudnn
