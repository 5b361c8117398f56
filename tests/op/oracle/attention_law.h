// SPDX-License-Identifier: Apache-2.0
// The fixture of attention laws: run a call and compare it with the oracle in one step.
#pragma once

#include "tests/op/harness/compare.h"
#include "tests/op/harness/law.h"
#include "tests/op/oracle/attention_oracle.h"

namespace laws {

class AttentionLaw : public Law {
 protected:
  // Runs the call; o, lse and the rows past the last offset must be what the oracle says.
  void expect_oracle(AttentionCall call, const std::string& note = "");
  // The same requests in every form that can express them, against the oracle.
  void expect_oracle_in_every_form(const AttentionCall& ragged, const std::string& note = "");
};

}  // namespace laws
