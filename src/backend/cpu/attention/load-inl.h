// SPDX-License-Identifier: Apache-2.0
// Tiles of q, k and v to fp32 scratch, through the page table, for every SIMD target. Each key row
// is converted once a (request, KV head, row tile); rows past the tile's keys are zero or not used.
#if defined(TILEGATE_CPU_ATTENTION_LOAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TILEGATE_CPU_ATTENTION_LOAD_INL_H_
#undef TILEGATE_CPU_ATTENTION_LOAD_INL_H_
#else
#define TILEGATE_CPU_ATTENTION_LOAD_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "backend/cpu/attention/job.h"
#include "backend/cpu/simd_convert-inl.h"
#include "problem/lengths.h"

HWY_BEFORE_NAMESPACE();
namespace tilegate::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Query row and head of a packed row.
struct PackedRow {
  std::int64_t row = 0;
  std::int64_t head = 0;
};

inline PackedRow unpack_row(const AttentionProblem& problem, const FlashItem& item, int r) {
  const std::int64_t packed = item.row_begin + r;
  const std::int64_t group = problem.group_size();
  return {packed / group, item.kv_head * group + packed % group};
}

// scratch.q[dim, row] of the item, columns past its rows zero.
template <class T>
void load_queries(const AttentionProblem& problem, const FlashItem& item,
                  const FlashScratch& scratch, int padded_rows) {
  float* line = scratch.k;  // one query row; free until the first key tile
  for (int r = 0; r < item.rows; ++r) {
    const PackedRow at = unpack_row(problem, item, r);
    const T* from = static_cast<const T*>(problem.q.data) +
                    qo_offset(problem, problem.q, item.request, at.row) +
                    at.head * problem.q.strides[2];
    load_row(from, problem.dim_qk, line);
    float* to = scratch.q + r;
    for (std::int64_t i = 0; i < problem.dim_qk; ++i) to[i * padded_rows] = line[i];
  }
  for (int r = item.rows; r < padded_rows; ++r) {
    for (std::int64_t i = 0; i < problem.dim_qk; ++i) scratch.q[i * padded_rows + r] = 0.0f;
  }
}

// A range of keys of one (request, KV head).
struct KeyTile {
  std::int64_t begin = 0;
  int keys = 0;
};

inline constexpr std::int64_t kMaxRun = 1 << 20;

// Keys from `key` on that follow each other at the view's token stride.
inline std::int64_t run_length(const AttentionProblem& problem, std::int64_t key) {
  if (!problem.paged()) return kMaxRun;
  return problem.page_size - key % problem.page_size;
}

// f(done, keys, first): the keys of a tile in runs of rows at the view's token stride, `first` the
// first row of a run and `done` the number of keys before it.
template <class T, class F>
HWY_INLINE void for_each_run(const AttentionProblem& problem, const FlashItem& item,
                             const TensorView& view, const KeyTile& tile, F&& f) {
  for (int done = 0; done < tile.keys;) {
    const std::int64_t key = tile.begin + done;
    const auto run =
        static_cast<int>(std::min<std::int64_t>(run_length(problem, key), tile.keys - done));
    const T* first = static_cast<const T*>(view.data) +
                     kv_offset(problem, view, item.request, key) + item.kv_head * view.strides[2];
    f(done, run, first);
    done += run;
  }
}

// to[key, :] for the keys of the tile; columns of V past dim_v are zero.
template <class T>
void load_tile(const AttentionProblem& problem, const FlashItem& item, const TensorView& view,
               const KeyTile& tile, float* to) {
  const bool is_key = &view == &problem.k;
  const std::int64_t dim = is_key ? problem.dim_qk : problem.dim_v;
  const std::int64_t to_stride = is_key ? dim : round_up(dim, kMaxLanes);
  for_each_run<T>(problem, item, view, tile, [&](int done, int run, const T* from) {
    for (int i = 0; i < run; ++i) {
      float* row = to + (done + i) * to_stride;
      load_row(from + i * view.strides[1], dim, row);
      std::fill(row + dim, row + to_stride, 0.0f);
    }
  });
}

// Whether all of x[0..n) are finite; n is a multiple of kMaxLanes.
inline bool all_finite(const float* x, std::int64_t n) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto sum = hn::Zero(d);  // 0 * x is 0 unless x is NaN or infinite
  for (std::int64_t i = 0; i < n; i += lanes) {
    sum = hn::MulAdd(hn::Load(d, x + i), hn::Zero(d), sum);
  }
  return hn::AllTrue(d, hn::Eq(sum, hn::Zero(d)));
}

}  // namespace tilegate::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
