// SPDX-License-Identifier: Apache-2.0
// Logits of a tile to probabilities, for every SIMD target: scale, soft cap, masks, the running
// maximum m and sum l, and alpha, by which the state before this tile shrinks. The tile is
// [keys, rows] with rows as lanes, so maxima and sums are vertical and run in order of keys.
//
// Masked logits become -inf by selection (whatever a masked key holds, NaN included, is gone) and
// their probability is exactly 0; a tile without visible keys changes nothing in its rows: alpha is
// exactly 1. Logits stay in natural units until the maximum is off, so that huge ones keep their
// differences.
#if defined(TILEGATE_CPU_ATTENTION_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TILEGATE_CPU_ATTENTION_SOFTMAX_INL_H_
#undef TILEGATE_CPU_ATTENTION_SOFTMAX_INL_H_
#else
#define TILEGATE_CPU_ATTENTION_SOFTMAX_INL_H_
#endif

#include <hwy/highway.h>

#include <limits>

#include "backend/cpu/attention/job.h"
#include "backend/cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tilegate::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

enum class CapKind { kNone, kTanh };
enum class MaskKind { kNone, kRange, kCustom };

struct SoftmaxTile {
  float scale = 1.0f;  // of the raw score; with a soft cap, scale / cap
  float cap = 0.0f;    // 0: off
  int keys = 0;
  int rows = 0;  // whole vectors
};

// Scaled, capped and masked logits of one vector of rows, stored in place; returns their maximum.
template <CapKind kCap, MaskKind kMask>
HWY_INLINE hn::Vec<hn::ScalableTag<float>> mask_column(const SoftmaxTile& tile,
                                                       const FlashScratch& scratch, int row) {
  const hn::ScalableTag<float> d;
  const auto empty = hn::Set(d, -std::numeric_limits<float>::infinity());
  const auto scale = hn::Set(d, tile.scale);
  const auto first = hn::Load(d, scratch.first + row);
  const auto last = hn::Load(d, scratch.last + row);
  auto largest = empty;
  float* p = scratch.p + row;
  for (int key = 0; key < tile.keys; ++key, p += tile.rows) {
    auto s = hn::Mul(hn::Load(d, p), scale);
    if constexpr (kCap == CapKind::kTanh) s = hn::Mul(tanh(d, s), hn::Set(d, tile.cap));
    if constexpr (kMask == MaskKind::kRange) {
      const auto at = hn::Set(d, static_cast<float>(key));
      s = hn::IfThenElse(hn::And(hn::Ge(at, first), hn::Lt(at, last)), s, empty);
    }
    if constexpr (kMask == MaskKind::kCustom) {
      const auto allowed =
          hn::Load(d, scratch.allowed + static_cast<std::ptrdiff_t>(key) * tile.rows + row);
      s = hn::IfThenElse(hn::Ne(allowed, hn::Zero(d)), s, empty);
    }
    hn::Store(s, d, p);
    largest = hn::Max(largest, s);
  }
  return largest;
}

template <CapKind kCap, MaskKind kMask>
void softmax_tile(const SoftmaxTile& tile, const FlashScratch& scratch) {
  const hn::ScalableTag<float> d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  const auto empty = hn::Set(d, -std::numeric_limits<float>::infinity());
  const auto log2e = hn::Set(d, kLog2e);
  for (int row = 0; row < tile.rows; row += lanes) {
    const auto before = hn::Load(d, scratch.part.m + row);
    const auto m = hn::Max(before, mask_column<kCap, kMask>(tile, scratch, row));
    // An empty row subtracts 0, so that exp2(-inf) is its 0 and no inf - inf is formed.
    const auto shift = hn::IfThenZeroElse(hn::Eq(m, empty), m);
    auto sum = hn::Zero(d);
    float* p = scratch.p + row;
    for (int key = 0; key < tile.keys; ++key, p += tile.rows) {
      const auto e = exp2(d, hn::Mul(hn::Sub(hn::Load(d, p), shift), log2e));
      hn::Store(e, d, p);
      sum = hn::Add(sum, e);
    }
    const auto alpha = exp2(d, hn::Mul(hn::Sub(before, shift), log2e));
    const auto l = hn::Load(d, scratch.part.l + row);
    hn::Store(hn::MulAdd(l, alpha, sum), d, scratch.part.l + row);
    hn::Store(alpha, d, scratch.alpha + row);
    hn::Store(m, d, scratch.part.m + row);
  }
}

template <CapKind kCap>
void softmax_masked(const SoftmaxTile& tile, const FlashScratch& scratch, MaskKind mask) {
  switch (mask) {
    case MaskKind::kNone:
      softmax_tile<kCap, MaskKind::kNone>(tile, scratch);
      break;
    case MaskKind::kRange:
      softmax_tile<kCap, MaskKind::kRange>(tile, scratch);
      break;
    case MaskKind::kCustom:
      softmax_tile<kCap, MaskKind::kCustom>(tile, scratch);
      break;
  }
}

}  // namespace tilegate::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
