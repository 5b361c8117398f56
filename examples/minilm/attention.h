// SPDX-License-Identifier: Apache-2.0
// The tilegate call of this example: self-attention of every sentence over its own tokens.
//
// q, k and v [T, heads, head_dim] are read in place out of the packed projection [T, 3 * hidden];
// both offset arrays are the batch's. fp32, no mask beside the sentence's own bounds.
#pragma once

#include <tilegate/tilegate.h>

#include <cstdint>
#include <vector>

#include "weights.h"

namespace minilm {

struct AttentionSetup {
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  // Bits of a sentence do not depend on the sentences beside it.
  bool batch_invariant = true;
  tilegate::Backend backend = tilegate::Backend::kAuto;
};

// qkv [T, 3 * heads * head_dim] -> [T, heads * head_dim]. indptr [sentences + 1], ends at T.
// Throws tilegate::Error with the library's sentence.
Matrix attend(tilegate::Context& context, const AttentionSetup& setup, const Matrix& qkv,
              const std::vector<std::int32_t>& indptr);

}  // namespace minilm
