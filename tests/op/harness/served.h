// SPDX-License-Identifier: Apache-2.0
// The grain of the backend under test: reference and cpu serve every legal shape, the GPU's kernels
// some of them. A law names the shape it would like and takes the nearest that is served, so that
// it proves something everywhere.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/op/tensor/tensor.h"
#include "tilegate/attention.h"

namespace laws {

// Of the law that runs.
void set_served(tilegate::Backend backend);

// Attention: the finest dtype, all dtypes, and the head dim at or above `wanted`.
tilegate::DType plain_dtype();
std::vector<tilegate::DType> float_dtypes();
std::int64_t head_dim(std::int64_t wanted);

// Delta rule: the K at or above `wanted`, and at most as many tokens in a sequence.
std::int64_t key_dim(std::int64_t wanted);
std::int64_t tokens(std::int64_t wanted);
Dims lengths(Dims wanted);
// The longest sequence, where a call is served only when it declares it, else 0.
std::int64_t declared_length(const Dims& lens);

}  // namespace laws
