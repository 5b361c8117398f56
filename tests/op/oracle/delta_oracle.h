// SPDX-License-Identifier: Apache-2.0
// The delta-rule recurrence in fp64, token by token, for the tests: independent of the library.
// Ask before running the call: an in-place pool holds the initial states only until then.
#pragma once

#include <vector>

#include "tests/op/calls/delta_call.h"

namespace laws {

struct DeltaAnswer {
  std::vector<double> o;                         // [tokens, HO, V]
  std::vector<std::vector<double>> final_state;  // a sequence: [HO, V, K]
  // A sequence: its states after 0, every, 2 every, .. tokens, [HO, V, K] each.
  std::vector<std::vector<std::vector<double>>> states;

  std::vector<double> all_final_states() const;  // [N, HO, V, K]
  std::vector<double> o_of(const DeltaCall& call, std::size_t sequence) const;
};

// `every` > 0 also keeps intermediate states.
DeltaAnswer delta_oracle(const DeltaCall& call, std::int64_t every = 0);

}  // namespace laws
