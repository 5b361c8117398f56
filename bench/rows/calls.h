// SPDX-License-Identifier: Apache-2.0
// A shape as a call of the library: tensors on the stream's device, and the problem for a backend.
#pragma once

#include "bench/rows/shapes.h"
#include "bench/rows/tensors.h"
#include "tilegate/plan.h"

namespace tilegate::bench {

// Allocates and fills every tensor of the call. Throws tilegate::Error.
CallArgs make_args(const Shape& shape, Tensors& tensors);

// Errors: invalid_argument.
Result<Problem> describe_call(const Shape& shape, const CallArgs& args, Backend backend);

}  // namespace tilegate::bench
