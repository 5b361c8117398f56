// SPDX-License-Identifier: Apache-2.0
// The definition of softmax attention in fp64, for the tests: independent of the library.
#pragma once

#include <vector>

#include "tests/op/calls/attention_call.h"

namespace laws {

struct AttentionAnswer {
  std::vector<double> o;    // [rows, heads_q, dim_v]
  std::vector<double> lse;  // [rows, heads_q], in the base that the call asks for
};

AttentionAnswer attention_oracle(const AttentionCall& call);

}  // namespace laws
