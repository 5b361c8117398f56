// SPDX-License-Identifier: Apache-2.0
// One cuDNN attention graph as plain data: everything cuDNN bakes into a plan, and nothing else. It
// is the key of the graph cache, so whatever changes a result or an engine must stand here.
// Lengths, offsets, page ids and pointers are not baked: one graph serves any of them within its
// maxima.
#pragma once

#include <cstdint>

#include "tilegate/tensor.h"

namespace tilegate::cudnn {

// Strides in elements of a [batch, rows, heads, dim] tensor; dim has stride 1. With ragged offsets
// the batch stride is not read.
struct Strides {
  std::int64_t batch = 0;
  std::int64_t row = 0;
  std::int64_t head = 0;
  bool operator==(const Strides&) const = default;
};

// Where the diagonal of a band starts: row 0 sees key 0, or the last row sees the last key.
enum class Diagonal : std::uint8_t { kTopLeft, kBottomRight };
// kDense: every request has all rows and keys. kPadded: lengths come from device memory.
enum class Lengths : std::uint8_t { kDense, kPadded };
// kStrided: requests are a batch stride apart. kRagged: they start at offsets in device memory.
enum class Placement : std::uint8_t { kStrided, kRagged };

struct GraphSpec {
  DType dtype = DType::kBFloat16;
  std::int64_t batch = 0;
  std::int64_t heads_q = 0;
  std::int64_t heads_kv = 0;
  std::int64_t dim_qk = 0;
  std::int64_t dim_v = 0;
  std::int64_t rows = 0;       // of a request, at most
  std::int64_t keys = 0;       // of a request, at most
  std::int64_t page_size = 0;  // 0: not paged
  std::int64_t pages = 0;  // in the pool; k and v strides are then of [pages, slots, heads, dim]
  Strides q, k, v, o, lse;
  Lengths lengths = Lengths::kDense;
  Placement q_placement = Placement::kStrided;   // of q, o and lse
  Placement kv_placement = Placement::kStrided;  // of k and v
  Diagonal diagonal = Diagonal::kBottomRight;
  std::int64_t left_keys = -1;   // keys up to and with the diagonal; -1: no bound
  std::int64_t right_keys = -1;  // keys after the diagonal; -1: no bound
  bool has_lse = false;
  bool has_sinks = false;
  float scale = 1.0f;

  std::int64_t table_width() const {
    return page_size > 0 ? (keys + page_size - 1) / page_size : 0;
  }
  bool operator==(const GraphSpec&) const = default;
};

}  // namespace tilegate::cudnn
