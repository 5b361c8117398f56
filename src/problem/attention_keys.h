// SPDX-License-Identifier: Apache-2.0
// Bounds on the keys of all requests of a call together, from shapes alone. A CSR page table has an
// entry for every page of every request, so many requests with a large maximum are not as many keys
// as both multiplied.
#pragma once

#include <algorithm>
#include <cstdint>

#include "problem/attention.h"
#include "problem/lengths.h"

namespace tilegate {

// Pieces of `piece` keys, at most, when no request has more than `keys`. One without keys has one.
inline std::int64_t most_pieces(const AttentionProblem& p, std::int64_t keys, std::int64_t piece) {
  const std::int64_t each = keys / piece + (keys % piece != 0 ? 1 : 0);
  const std::int64_t by_length = p.batch * std::max<std::int64_t>(each, 1);
  if (!p.kv_indices.present()) return by_length;
  return std::min(by_length, page_capacity(p.kv_indices.shape[0], p.page_size) / piece + p.batch);
}

// Keys, at most, when no request has more than `keys`.
inline std::int64_t most_keys(const AttentionProblem& p, std::int64_t keys) {
  const std::int64_t by_length = p.batch * keys;
  if (!p.kv_indices.present()) return by_length;
  return std::min(by_length, page_capacity(p.kv_indices.shape[0], p.page_size));
}

}  // namespace tilegate
