// SPDX-License-Identifier: Apache-2.0
// Do two pools of states [slots, HO, V, K] share memory, and how? The rows of two views may be the
// same rows under other numbers (a pool and a slice of it), lie between each other without touching
// (two layers in one page), or overlap in any other way, in which case no order of reads and writes
// is right.
#pragma once

#include <cstdint>

#include "tilegate/tensor.h"

namespace tilegate {

enum class Sharing : std::uint8_t { kNone, kRows, kTangled };

struct SharedRows {
  Sharing sharing = Sharing::kNone;
  std::int64_t shift = 0;  // kRows: row r of `a` is row r + shift of `b`
};

// Views of rank 4, the strides of at least one positive. Without memory, or without elements, they
// share nothing.
SharedRows shared_rows(TensorView a, TensorView b);

}  // namespace tilegate
