// SPDX-License-Identifier: Apache-2.0
// Views of equal strides and dtype are compared exactly: they share an element when the distance of
// their first elements is a sum of whole strides, none as often as its dimension is long. Others
// share nothing when their spans of memory do not meet, or when rows of one pitch lie side by side;
// else they count as tangled.
#include "problem/state_sharing.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>

namespace tilegate {
namespace {

using Axes = std::array<int, kMaxRank>;

// Bytes that the axes from `axis` on reach: [begin, end) around the first element.
struct Span {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

Span span_of(const TensorView& view, int axis) {
  Span span;
  for (int i = axis; i < view.rank; ++i) {
    const std::int64_t last = (view.shape[i] - 1) * view.strides[i] * size_of(view.dtype);
    (last < 0 ? span.begin : span.end) += last;
  }
  span.end += size_of(view.dtype);
  return span;
}

// Rows of one pitch that lie side by side, as layers do in a page. `from_a` is in bytes.
bool side_by_side(const TensorView& a, const TensorView& b, std::int64_t from_a) {
  const std::int64_t pitch = a.strides[0] * size_of(a.dtype);
  if (pitch <= 0 || pitch != b.strides[0] * size_of(b.dtype)) return false;
  const Span row_a = span_of(a, 1);
  const Span row_b = span_of(b, 1);
  const std::int64_t gap = from_a + row_a.begin - row_b.begin;
  const std::int64_t at = (gap % pitch + pitch) % pitch;  // of a's row after the row of b before it
  return at >= row_b.end - row_b.begin && at + row_a.end - row_a.begin <= pitch;
}

// A dimension of size 1 has no stride of its own: it takes that of the other view.
void match_single_strides(TensorView& a, const TensorView& b) {
  for (int i = 0; i < a.rank; ++i) {
    if (a.shape[i] == 1) a.strides[i] = b.strides[i];
  }
}

std::int64_t address(const TensorView& view) {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(view.data));
}

// Is `distance` a sum of strides as above? `order` sorts axes by stride, largest first, so what the
// axes after one can add stays below its stride.
bool reachable(const TensorView& a, const TensorView& b, const Axes& order, int depth,
               std::int64_t distance) {
  if (depth == a.rank) return distance == 0;
  const int axis = order[depth];
  const std::int64_t stride = a.strides[axis];
  const std::int64_t floor = distance / stride - (distance % stride < 0 ? 1 : 0);
  for (const std::int64_t steps : {floor, floor + 1}) {
    const bool inside = steps < b.shape[axis] && -steps < a.shape[axis];
    if (inside && reachable(a, b, order, depth + 1, distance - steps * stride)) return true;
  }
  return false;
}

bool share_an_element(const TensorView& a, const TensorView& b, std::int64_t distance) {
  Axes order{};
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.begin() + a.rank,
                   [&](int x, int y) { return a.strides[x] > a.strides[y]; });
  return reachable(a, b, order, 0, distance);
}

}  // namespace

SharedRows shared_rows(TensorView a, TensorView b) {
  if (a.data == nullptr || b.data == nullptr || a.numel() == 0 || b.numel() == 0) return {};
  match_single_strides(a, b);
  match_single_strides(b, a);
  const std::int64_t from_a = address(a) - address(b);
  const Span all_a = span_of(a, 0);
  const Span all_b = span_of(b, 0);
  if (from_a + all_a.begin >= all_b.end || from_a + all_a.end <= all_b.begin) return {};
  if (side_by_side(a, b, from_a)) return {};
  const std::int64_t size = size_of(a.dtype);
  const bool alike = a.dtype == b.dtype && a.strides == b.strides;
  if (!alike || from_a % size != 0) return {.sharing = Sharing::kTangled};
  const std::int64_t distance = from_a / size;
  if (distance % a.strides[0] == 0) {
    return {.sharing = Sharing::kRows, .shift = distance / a.strides[0]};
  }
  if (!share_an_element(a, b, distance)) return {};
  return {.sharing = Sharing::kTangled};
}

}  // namespace tilegate
