// SPDX-License-Identifier: Apache-2.0
// Sparse copies: the block is as long as the farthest element, only touched pages take memory.
#include "tests/op/tensor/sparse.h"

#include <iostream>

namespace laws {

Tensor sparse_copy(const Tensor& packed, int dim, std::int64_t stride) {
  Dims strides = packed.strides();
  strides[static_cast<std::size_t>(dim)] = stride;
  std::int64_t elements = 1;
  for (std::size_t d = 0; d < strides.size(); ++d) {
    elements += (packed.shape()[d] - 1) * strides[d];
  }
  const auto bytes = static_cast<std::size_t>(elements * tilegate::size_of(packed.dtype()));
  std::shared_ptr<Block> block = Block::sparse(bytes);
  if (block == nullptr) {
    std::cout << "skipped: mmap refused a sparse mapping of " << bytes << " bytes\n";
    return {};
  }
  Tensor tensor = Tensor::in_block(block, packed.dtype(), packed.shape(), strides);
  tensor.copy_from(packed);
  return tensor;
}

}  // namespace laws
