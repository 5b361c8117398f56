// SPDX-License-Identifier: Apache-2.0
// Comparisons: against an fp64 answer (positions of NaN and infinities first, then relative rms and
// the largest difference), and bit for bit. And the one table of tolerances.
#pragma once

#include <string>
#include <vector>

#include "tests/op/tensor/tensor.h"

namespace laws {

struct Tolerance {
  double rel_rms;  // rms(x - e) / rms(e)
  double max_rel;  // max |x - e| / max(max |e|, 0.1)
};

// What is compared; together with the dtype it picks the tolerance.
enum class Quantity { kAttention, kLse, kDelta, kState };

// `storage` is the coarsest dtype the value passed through on its way.
Tolerance tolerance(Quantity quantity, tilegate::DType storage);

void expect_close(const Tensor& actual, const std::vector<double>& expected, Tolerance tolerance,
                  const std::string& label);
void expect_close(const Tensor& actual, const Tensor& expected, Tolerance tolerance,
                  const std::string& label);
void expect_same_bits(const Tensor& actual, const Tensor& expected, const std::string& label);
void expect_all(const Tensor& actual, double value, const std::string& label);
// Every byte is still poison: nothing wrote there.
void expect_untouched(const Tensor& actual, const std::string& label);

std::vector<double> values(const Tensor& tensor);
tilegate::DType coarser(tilegate::DType a, tilegate::DType b);

}  // namespace laws
