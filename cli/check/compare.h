// SPDX-License-Identifier: Apache-2.0
// One output against its right answer.
#pragma once

#include <string>

#include "cli/case/case_file.h"

namespace tilegate::cli {

struct Comparison {
  double rel_rms = 0.0;  // rms(x - e) / rms(e) over finite entries
  double max_abs = 0.0;  // max |x - e| over finite entries
  std::string miss;      // why it is wrong; empty when it is right
};

// `expected` is float32 with as many entries. Positions of NaN and of each infinity must agree;
// with rms(e) = 0 only max_abs counts; without a finite entry positions decide.
Comparison compare(const TensorView& output, const TensorView& expected,
                   const Tolerance& tolerance);

}  // namespace tilegate::cli
