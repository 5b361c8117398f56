// SPDX-License-Identifier: Apache-2.0
// The fixture of delta-rule laws: run a call and compare outputs and states with the oracle.
#pragma once

#include "tests/op/harness/compare.h"
#include "tests/op/harness/law.h"
#include "tests/op/oracle/delta_oracle.h"

namespace laws {

class DeltaLaw : public Law {
 protected:
  // Runs the call; o and final states (output_state, or the pool's slots) must be what the oracle
  // says, spare rows untouched. False when the backend rejected it.
  bool expect_oracle(DeltaCall call, const std::string& note = "");
};

// Everything the values of a call passed through, coarsest first.
tilegate::DType output_precision(const DeltaCall& call);
tilegate::DType state_precision(const DeltaCall& call, const Tensor& state);

}  // namespace laws
