// SPDX-License-Identifier: Apache-2.0
// Where the key and value rows of a walk with few rows are, and asking for them ahead of time, for
// every SIMD target. Such a walk is bound by memory: rows of 256 bytes a head in pages of a few
// keys are too short for the machine's own prefetchers.
#if defined(TILEGATE_CPU_ATTENTION_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TILEGATE_CPU_ATTENTION_ROWS_INL_H_
#undef TILEGATE_CPU_ATTENTION_ROWS_INL_H_
#else
#define TILEGATE_CPU_ATTENTION_ROWS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "backend/cpu/attention/job.h"
#include "backend/cpu/attention/load-inl.h"
#include "backend/cpu/simd_convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tilegate::cpu::HWY_NAMESPACE {

// Addresses of the rows of a tile, one KV head; past its keys the last one again.
template <class T>
struct RowPointers {
  const T* row[kDecodeKeyTile];
};

template <class T>
void find_rows(const AttentionProblem& problem, const FlashItem& item, const TensorView& view,
               const KeyTile& tile, RowPointers<T>* rows) {
  for_each_run<T>(problem, item, view, tile, [&](int done, int run, const T* from) {
    for (int i = 0; i < run; ++i) rows->row[done + i] = from + i * view.strides[1];
  });
  std::fill(rows->row + tile.keys, rows->row + kDecodeKeyTile, rows->row[tile.keys - 1]);
}

// One step of a walk with few rows, a (key tile, KV head). Whatever reads the keys asks for the
// values of the step, and whatever reads the values asks for the keys of the next step, so that
// memory works while the step is computed.
template <class T>
struct RowStep {
  RowPointers<T> keys;
  RowPointers<T> values;
  RowPointers<T> next_keys;
};

struct StepPlace {
  KeyTile tile;
  int head = 0;
};

// step->next_keys: the next head's keys in this tile, or the first head's in the next tile; the
// step's own when it is the last.
template <class T>
void find_next_rows(const AttentionProblem& problem, FlashItem item, const StepPlace& at,
                    std::int64_t end, RowStep<T>* step) {
  KeyTile tile = at.tile;
  if (at.head + 1 < item.heads) {
    item.kv_head += at.head + 1;
  } else if (tile.begin + kDecodeKeyTile < end) {
    tile.begin += kDecodeKeyTile;
    tile.keys = static_cast<int>(std::min<std::int64_t>(kDecodeKeyTile, end - tile.begin));
  } else {
    step->next_keys = step->keys;
    return;
  }
  find_rows(problem, item, problem.k, tile, &step->next_keys);
}

template <class T>
HWY_INLINE void fetch_row(const T* row, std::int64_t dim) {
  constexpr auto kLine = static_cast<std::int64_t>(64 / sizeof(T));
  for (std::int64_t i = 0; i < dim; i += kLine) __builtin_prefetch(row + i);
}

// The K tile of a step to scratch, fp32, asking for its V.
template <class T>
void load_step_keys(const AttentionProblem& problem, const RowStep<T>& step, int count,
                    const FlashScratch& scratch) {
  for (int i = 0; i < count; ++i) {
    fetch_row(step.values.row[i], problem.dim_v);
    load_row(step.keys.row[i], problem.dim_qk, scratch.k + i * problem.dim_qk);
  }
}

// The V tile of a step to scratch, columns past dim_v zero, asking for the next K.
template <class T>
void load_step_values(const AttentionProblem& problem, const RowStep<T>& step, int count,
                      const FlashScratch& scratch) {
  const std::int64_t stride = round_up(problem.dim_v, kMaxLanes);
  float* to = scratch.v;
  for (int i = 0; i < count; ++i, to += stride) {
    fetch_row(step.next_keys.row[i], problem.dim_qk);
    load_row(step.values.row[i], problem.dim_v, to);
    std::fill(to + problem.dim_v, to + stride, 0.0f);
  }
}

}  // namespace tilegate::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
