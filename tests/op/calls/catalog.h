// SPDX-License-Identifier: Apache-2.0
// One call of every operation and form, for laws that hold for all of them: stable bits, reuse of
// plans, refusals.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/op/calls/call.h"

namespace laws {

struct CatalogEntry {
  std::string name;
  // A fresh call with fresh tensors, the same values every time.
  std::function<std::unique_ptr<Call>()> make;
};

// Long enough that kernels split keys and segment tokens.
std::vector<CatalogEntry> catalog();

// Every output of `a` equals that of `b` bit for bit; the two calls are of one entry.
void expect_same_outputs(Call& a, Call& b, const std::string& label);

}  // namespace laws
