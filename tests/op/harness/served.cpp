// SPDX-License-Identifier: Apache-2.0
// What the kernels for the GPU are built for: fp16 and bf16, head dims 64, 128, 256, keys of the
// delta rule from 32, and short steps of it.
#include "tests/op/harness/served.h"

#include <algorithm>

namespace laws {

using tilegate::Backend;
using tilegate::DType;

namespace {

constexpr std::int64_t kLeastHeadDim = 64;
constexpr std::int64_t kLeastKeyDim = 32;
constexpr std::int64_t kMostTokens = 16;

Backend current = Backend::kReference;

bool on_gpu() { return current == Backend::kCuda || current == Backend::kCudnn; }

std::int64_t power_from(std::int64_t least, std::int64_t wanted) {
  std::int64_t dim = least;
  while (dim < wanted) dim *= 2;
  return dim;
}

}  // namespace

void set_served(Backend backend) { current = backend; }

DType plain_dtype() { return on_gpu() ? DType::kFloat16 : DType::kFloat32; }

std::vector<DType> float_dtypes() {
  if (on_gpu()) return {DType::kFloat16, DType::kBFloat16};
  return {DType::kFloat32, DType::kFloat16, DType::kBFloat16};
}

std::int64_t head_dim(std::int64_t wanted) {
  return on_gpu() ? power_from(kLeastHeadDim, wanted) : wanted;
}

std::int64_t key_dim(std::int64_t wanted) {
  return on_gpu() ? power_from(kLeastKeyDim, wanted) : wanted;
}

std::int64_t tokens(std::int64_t wanted) {
  return on_gpu() ? std::min(wanted, kMostTokens) : wanted;
}

Dims lengths(Dims wanted) {
  for (std::int64_t& n : wanted) n = tokens(n);
  return wanted;
}

std::int64_t declared_length(const Dims& lens) {
  return on_gpu() && !lens.empty() ? *std::max_element(lens.begin(), lens.end()) : 0;
}

}  // namespace laws
