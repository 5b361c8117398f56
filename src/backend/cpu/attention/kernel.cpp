// SPDX-License-Identifier: Apache-2.0
// cpu.flash: one tile of packed query rows against its keys, with the online softmax. For every key
// tile: load K, P = K Q^T, softmax down the keys, load V, O = alpha O + P^T V. The state of a split
// starts empty; splits are folded in order of position. fp32 arithmetic throughout. Bound by the
// FMA ports when the tile has many rows, by memory when it has few.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention/kernel.cpp"
#include "backend/cpu/simd_targets.h"
// Per-target code follows.
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/attention/direct-inl.h"
#include "backend/cpu/attention/gemm-inl.h"
#include "backend/cpu/attention/job.h"
#include "backend/cpu/attention/load-inl.h"
#include "backend/cpu/attention/rows-inl.h"
#include "backend/cpu/attention/softmax-inl.h"
#include "problem/lengths.h"

HWY_BEFORE_NAMESPACE();
namespace tilegate::cpu::HWY_NAMESPACE {

// Keys that some row of the item sees, and those that every row sees, before any custom mask.
struct ItemKeys {
  IndexRange any;
  IndexRange all;
};

ItemKeys find_visible_keys(const AttentionProblem& problem, const FlashItem& item,
                           const FlashScratch& scratch, int padded_rows) {
  ItemKeys keys{.any = {item.kv_len, 0}, .all = {0, item.kv_len}};
  for (int r = 0; r < item.rows; ++r) {
    const std::int64_t row = unpack_row(problem, item, r).row;
    const IndexRange visible = visible_keys(problem, row, item.qo_len, item.kv_len);
    scratch.begin[r] = visible.begin;
    scratch.end[r] = visible.end;
    keys.all.begin = std::max(keys.all.begin, visible.begin);
    keys.all.end = std::min(keys.all.end, visible.end);
    if (visible.empty()) continue;
    keys.any.begin = std::min(keys.any.begin, visible.begin);
    keys.any.end = std::max(keys.any.end, visible.end);
  }
  for (int r = item.rows; r < padded_rows; ++r) scratch.begin[r] = scratch.end[r] = 0;
  return keys;
}

// scratch.first and scratch.last of every row; with a custom mask, scratch.allowed too.
void mark_visible(const AttentionProblem& problem, const FlashItem& item,
                  const FlashScratch& scratch, const KeyTile& tile, int padded_rows) {
  for (int r = 0; r < padded_rows; ++r) {
    const auto limit = static_cast<std::int64_t>(tile.keys);
    const auto first = std::clamp<std::int64_t>(scratch.begin[r] - tile.begin, 0, limit);
    const auto last = std::clamp<std::int64_t>(scratch.end[r] - tile.begin, 0, limit);
    scratch.first[r] = static_cast<float>(first);
    scratch.last[r] = static_cast<float>(last);
    if (scratch.allowed == nullptr) continue;
    for (int key = 0; key < tile.keys; ++key) scratch.allowed[key * padded_rows + r] = 0.0f;
    if (r >= item.rows) continue;
    const std::int64_t row = unpack_row(problem, item, r).row;
    for (std::int64_t key = first; key < last; ++key) {
      const bool allowed =
          mask_allows(problem, item.mask_begin, item.kv_len, row, tile.begin + key);
      scratch.allowed[key * padded_rows + r] = allowed ? 1.0f : 0.0f;
    }
  }
}

// As values(), but a key that a row does not see is not multiplied. For tiles where some value is
// NaN or infinite: 0 times it would reach rows that must not know of it. Bits of rows with finite
// visible values equal those of values().
void values_selected(const AttentionProblem& problem, const FlashItem& item,
                     const FlashScratch& scratch, const KeyTile& tile, int padded_rows) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t dim = round_up(problem.dim_v, kMaxLanes);
  for (int r = 0; r < item.rows; ++r) {
    float* o = scratch.part.o + r * dim;
    for (std::int64_t i = 0; i < dim; i += lanes) {
      auto acc = hn::Mul(hn::Set(d, scratch.alpha[r]), hn::Load(d, o + i));
      for (int key = 0; key < tile.keys; ++key) {
        const auto at = static_cast<float>(key);
        const bool visible = scratch.allowed != nullptr
                                 ? scratch.allowed[key * padded_rows + r] != 0.0f
                                 : at >= scratch.first[r] && at < scratch.last[r];
        if (!visible) continue;
        const auto p = hn::Set(d, scratch.p[key * padded_rows + r]);
        acc = hn::MulAdd(p, hn::Load(d, scratch.v + key * dim + i), acc);
      }
      hn::Store(acc, d, o + i);
    }
  }
}

// One (key tile, KV head). `step` is null in a tile of many rows.
template <class T>
void walk_tile(const FlashJob& job, const FlashItem& item, const FlashScratch& scratch,
               const KeyTile& tile, bool all_visible, const RowStep<T>* step) {
  const AttentionProblem& problem = *job.problem;
  const int padded_rows = static_cast<int>(round_up(item.rows, kMaxLanes));
  const bool direct = step != nullptr && is_direct(job);
  if (direct) {
    direct_scores(problem, *step, tile.keys, item.rows, scratch);
  } else {
    if (step != nullptr) {
      load_step_keys(problem, *step, tile.keys, scratch);
    } else {
      load_tile<T>(problem, item, problem.k, tile, scratch.k);
    }
    const int blocked = static_cast<int>(round_up(tile.keys, kKeyBlock));
    std::fill(scratch.k + tile.keys * problem.dim_qk, scratch.k + blocked * problem.dim_qk, 0.0f);
    scores(scratch, problem.dim_qk, tile.keys, padded_rows);
  }

  const MaskKind mask = scratch.allowed != nullptr ? MaskKind::kCustom
                        : all_visible              ? MaskKind::kNone
                                                   : MaskKind::kRange;
  if (mask != MaskKind::kNone) mark_visible(problem, item, scratch, tile, padded_rows);
  SoftmaxTile softmax{
      .scale = problem.scale, .cap = problem.soft_cap, .keys = tile.keys, .rows = padded_rows};
  if (problem.soft_cap > 0.0f) {
    softmax.scale = problem.scale / problem.soft_cap;
    softmax_masked<CapKind::kTanh>(softmax, scratch, mask);
  } else {
    softmax_masked<CapKind::kNone>(softmax, scratch, mask);
  }

  if (direct && mask == MaskKind::kNone) {
    direct_values(problem, *step, tile.keys, item.rows, scratch);
    return;
  }
  const std::int64_t dim_v = round_up(problem.dim_v, kMaxLanes);
  if (step != nullptr) {
    load_step_values(problem, *step, tile.keys, scratch);
  } else {
    load_tile<T>(problem, item, problem.v, tile, scratch.v);
  }
  if (mask != MaskKind::kNone && !all_finite(scratch.v, tile.keys * dim_v)) {
    values_selected(problem, item, scratch, tile, padded_rows);
    return;
  }
  values(scratch, dim_v, tile.keys, item.rows, padded_rows);
}

void clear(const AttentionProblem& problem, int rows, const FlashState& state) {
  const std::int64_t dim = round_up(problem.dim_v, kMaxLanes);
  const std::int64_t padded_rows = round_up(rows, kMaxLanes);
  std::fill(state.o, state.o + rows * dim, 0.0f);
  std::fill(state.m, state.m + padded_rows, -std::numeric_limits<float>::infinity());
  std::fill(state.l, state.l + padded_rows, 0.0f);
}

void fold(const AttentionProblem& problem, int rows, const FlashState& part,
          const FlashState& total) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t dim = round_up(problem.dim_v, kMaxLanes);
  constexpr float kEmpty = -std::numeric_limits<float>::infinity();
  for (int r = 0; r < rows; ++r) {
    if (part.m[r] == kEmpty) continue;
    float* to = total.o + r * dim;
    const float* from = part.o + r * dim;
    if (total.m[r] == kEmpty) {
      std::copy(from, from + dim, to);
      total.m[r] = part.m[r];
      total.l[r] = part.l[r];
      continue;
    }
    const float m = std::max(total.m[r], part.m[r]);
    const float w_total = std::exp(total.m[r] - m);
    const float w_part = std::exp(part.m[r] - m);
    total.m[r] = m;
    total.l[r] = total.l[r] * w_total + part.l[r] * w_part;
    for (std::int64_t i = 0; i < dim; i += lanes) {
      const auto scaled = hn::Mul(hn::Load(d, from + i), hn::Set(d, w_part));
      hn::Store(hn::MulAdd(hn::Load(d, to + i), hn::Set(d, w_total), scaled), d, to + i);
    }
  }
}

// What the item's KV head `head` uses of its scratch.
FlashScratch scratch_of_head(const AttentionProblem& problem, const FlashScratch& scratch, int head,
                             int padded_rows) {
  FlashScratch at = scratch;
  at.q += head * problem.dim_qk * padded_rows;
  at.part = scratch.part.of_head(head);
  at.total = scratch.total.of_head(head);
  return at;
}

inline FlashItem item_of_head(FlashItem item, int head) {
  item.kv_head += head;
  return item;
}

// Key tiles of one split, for all heads of the item.
template <class T>
void walk_split(const FlashJob& job, const FlashItem& item, const FlashScratch& scratch,
                const ItemKeys& visible, IndexRange keys) {
  const AttentionProblem& problem = *job.problem;
  const int padded_rows = static_cast<int>(round_up(item.rows, kMaxLanes));
  const bool few_rows = job.key_tile == kDecodeKeyTile;
  RowStep<T> step;
  for (std::int64_t key = keys.begin; key < keys.end; key += job.key_tile) {
    const KeyTile tile{key, static_cast<int>(std::min<std::int64_t>(job.key_tile, keys.end - key))};
    const bool all_visible = key >= visible.all.begin && key + tile.keys <= visible.all.end;
    for (int head = 0; head < item.heads; ++head) {
      const FlashItem own = item_of_head(item, head);
      if (few_rows) {
        if (head == 0 && key == keys.begin) find_rows(problem, own, problem.k, tile, &step.keys);
        find_rows(problem, own, problem.v, tile, &step.values);
        find_next_rows(problem, item, {tile, head}, keys.end, &step);
      }
      walk_tile<T>(job, own, scratch_of_head(problem, scratch, head, padded_rows), tile,
                   all_visible, few_rows ? &step : nullptr);
      if (few_rows) step.keys = step.next_keys;
    }
  }
}

template <class T>
FlashState walk(const FlashJob& job, const FlashItem& item, const FlashScratch& scratch) {
  const AttentionProblem& problem = *job.problem;
  const int padded_rows = static_cast<int>(round_up(item.rows, kMaxLanes));
  const std::int64_t split =
      job.kv_split > 0 ? job.kv_split : std::max<std::int64_t>(item.kv_len, 1);
  const ItemKeys visible = find_visible_keys(problem, item, scratch, padded_rows);
  FlashScratch at = scratch;  // part and total change places
  for (int head = 0; head < item.heads; ++head) {
    const FlashItem of_head = item_of_head(item, head);
    const FlashScratch own = scratch_of_head(problem, at, head, padded_rows);
    if (is_direct(job)) {
      load_query_rows<T>(problem, of_head, own);
    } else {
      load_queries<T>(problem, of_head, own, padded_rows);
    }
    clear(problem, item.rows, at.part.of_head(head));
  }

  bool have_total = false;
  for (std::int64_t s = item.split_begin; s < item.split_end; ++s) {
    const std::int64_t begin = s * split;
    const std::int64_t end = std::min(visible.any.end, begin + split);
    // Tiles stand at fixed distances from the split's begin, wherever the first visible key is.
    const std::int64_t skipped =
        std::max<std::int64_t>(visible.any.begin - begin, 0) / job.key_tile;
    const std::int64_t first = begin + skipped * job.key_tile;
    if (first >= end) continue;
    for (int head = 0; have_total && head < item.heads; ++head) {
      clear(problem, item.rows, at.part.of_head(head));
    }
    walk_split<T>(job, item, at, visible, {first, end});
    for (int head = 0; have_total && head < item.heads; ++head) {
      fold(problem, item.rows, at.part.of_head(head), at.total.of_head(head));
    }
    if (!have_total && s + 1 < item.split_end) {
      std::swap(at.part, at.total);
      have_total = true;
    }
  }
  return have_total ? at.total : at.part;
}

FlashState walk_any(const FlashJob& job, const FlashItem& item, const FlashScratch& scratch) {
  switch (job.problem->dtype) {
    case DType::kFloat16:
      return walk<Half>(job, item, scratch);
    case DType::kBFloat16:
      return walk<BFloat16>(job, item, scratch);
    default:
      return walk<float>(job, item, scratch);
  }
}

template <class T>
void store(const FlashJob& job, const FlashItem& item, const FlashState& state) {
  const AttentionProblem& problem = *job.problem;
  const std::int64_t dim = round_up(problem.dim_v, kMaxLanes);
  constexpr double kInvLn2 = 1.44269504088896340736;
  for (int r = 0; r < item.rows; ++r) {
    const PackedRow at = unpack_row(problem, item, r);
    double m = state.m[r];
    double l = state.l[r];
    double shrink = 1.0;
    if (problem.sinks.present()) {
      const double sink =
          load_float(problem.sinks.data, problem.sinks.dtype, at.head * problem.sinks.strides[0]);
      const double top = std::max(m, sink);
      if (top != -std::numeric_limits<double>::infinity()) {
        shrink = std::exp(m - top);
        l = l * shrink + std::exp(sink - top);
        m = top;
      }
    }
    // l is 0 only for a row without keys and sink, whose o is 0 already.
    const auto scale = static_cast<float>(l == 0.0 ? 0.0 : shrink / l);
    T* o = static_cast<T*>(problem.o.data) + qo_offset(problem, problem.o, item.request, at.row) +
           at.head * problem.o.strides[2];
    store_row(state.o + r * dim, scale, problem.dim_v, o);
    if (!problem.lse.present()) continue;
    const double lse = m + std::log(l);
    float* to = static_cast<float*>(problem.lse.data) +
                qo_offset(problem, problem.lse, item.request, at.row) +
                at.head * problem.lse.strides[2];
    *to = static_cast<float>(problem.lse_base == LseBase::kLog2 ? lse * kInvLn2 : lse);
  }
}

void store_any(const FlashJob& job, const FlashItem& item, const FlashState& state) {
  switch (job.problem->dtype) {
    case DType::kFloat16:
      store<Half>(job, item, state);
      break;
    case DType::kBFloat16:
      store<BFloat16>(job, item, state);
      break;
    default:
      store<float>(job, item, state);
      break;
  }
}

}  // namespace tilegate::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tilegate::cpu {

HWY_EXPORT(walk_any);
HWY_EXPORT(store_any);
HWY_EXPORT(fold);

FlashState flash_walk(const FlashJob& job, const FlashItem& item, const FlashScratch& scratch) {
  return HWY_DYNAMIC_DISPATCH(walk_any)(job, item, scratch);
}

void flash_fold(const AttentionProblem& problem, int rows, const FlashState& part,
                const FlashState& total) {
  HWY_DYNAMIC_DISPATCH(fold)(problem, rows, part, total);
}

void flash_store(const FlashJob& job, const FlashItem& item, const FlashState& state) {
  HWY_DYNAMIC_DISPATCH(store_any)(job, item, state);
}

}  // namespace tilegate::cpu
#endif  // HWY_ONCE
