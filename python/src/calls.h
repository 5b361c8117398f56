// SPDX-License-Identifier: Apache-2.0
// From positional arguments to a call of the C++ API. The order is the one of the tables in
// python/tilegate/_calls.py: the operation's number, its tensors, its options.
#pragma once

#include "arguments.h"

namespace tilegate::python {

struct Call {
  CallArgs args;
  Result<Problem> problem;
};

// The operation's number and its tensors.
CallArgs read_args(ArgumentReader& in);

// Where the leading tensor lives, by which the others go.
Device device_of(const CallArgs& args);

// Number, tensors and options.
Call read_call(ArgumentReader& in);

}  // namespace tilegate::python
