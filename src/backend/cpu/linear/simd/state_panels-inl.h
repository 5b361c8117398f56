// SPDX-License-Identifier: Apache-2.0
// Between a state in memory, [V, K] rows of any stride and dtype, and the walk's panels, [K] x
// columns of V in fp32. A panel row past the last column is zero.
#if defined(TILEGATE_CPU_LINEAR_STATE_PANELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TILEGATE_CPU_LINEAR_STATE_PANELS_INL_H_
#undef TILEGATE_CPU_LINEAR_STATE_PANELS_INL_H_
#else
#define TILEGATE_CPU_LINEAR_STATE_PANELS_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "backend/cpu/linear/simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tilegate::cpu_linear {
namespace HWY_NAMESPACE {

// Columns [begin, begin + count) of V of one head of one slot.
struct StateSlice {
  const TensorView& view;  // [slots, HO, V, K]
  std::int64_t slot = 0;
  std::int64_t head = 0;
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::int64_t row(std::int64_t v) const { return offset_of(view, slot, head, begin + v); }
};

// Where column v of V is in panels of [dim_k][kPanel].
HWY_INLINE std::int64_t panel_offset(std::int64_t dim_k, std::int64_t v) {
  return v / kPanel * kPanel * dim_k + v % kPanel;
}

inline HWY_NOINLINE void load_state(const StateSlice& s, std::int64_t dim_k, std::int64_t pitch,
                                    float* scratch, float* panels) {
  constexpr std::int64_t kStep = std::min<std::int64_t>(4, kPanel);
  for (std::int64_t v = 0; v < s.count; v += 4) {
    for (std::int64_t r = 0; r < 4; ++r) {
      load_row(s.view, s.row(v + r), dim_k, dim_k, scratch + r * pitch);
    }
    for (std::int64_t r = 0; r < 4; r += kStep) {
      float* out = panels + panel_offset(dim_k, v + r);
      if constexpr (kStep == 4) {
        transpose_rows4(scratch, pitch, dim_k, out, kPanel);
      } else {
        for (std::int64_t k = 0; k < dim_k; ++k) {
          for (std::int64_t c = 0; c < kStep; ++c) {
            out[k * kPanel + c] = scratch[(r + c) * pitch + k];
          }
        }
      }
    }
  }
}

inline HWY_NOINLINE void store_state(const float* panels, std::int64_t dim_k, std::int64_t pitch,
                                     float* scratch, const StateSlice& s) {
  constexpr std::int64_t kStep = std::min<std::int64_t>(4, kPanel);
  for (std::int64_t v = 0; v < s.count; v += 4) {
    for (std::int64_t r = 0; r < 4; r += kStep) {
      const float* in = panels + panel_offset(dim_k, v + r);
      if constexpr (kStep == 4) {
        transpose_columns4(in, kPanel, dim_k, scratch, pitch);
      } else {
        for (std::int64_t k = 0; k < dim_k; ++k) {
          for (std::int64_t c = 0; c < kStep; ++c) {
            scratch[(r + c) * pitch + k] = in[k * kPanel + c];
          }
        }
      }
    }
    for (std::int64_t r = 0; r < 4; ++r) {
      store_row(scratch + r * pitch, dim_k, s.view, s.row(v + r));
    }
  }
}

// Rows of a state that no token touches: bitwise when the dtypes agree.
HWY_INLINE void copy_state(const StateSlice& from, const StateSlice& to, std::int64_t dim_k,
                           float* scratch) {
  const std::int64_t size = size_of(to.view.dtype);
  for (std::int64_t v = 0; v < to.count; ++v) {
    if (from.view.dtype == to.view.dtype) {
      std::memmove(static_cast<std::byte*>(to.view.data) + to.row(v) * size,
                   static_cast<const std::byte*>(from.view.data) + from.row(v) * size,
                   static_cast<std::size_t>(dim_k * size));
      continue;
    }
    load_row(from.view, from.row(v), dim_k, dim_k, scratch);
    store_row(scratch, dim_k, to.view, to.row(v));
  }
}

HWY_INLINE void zero_state(const StateSlice& to, std::int64_t dim_k) {
  const std::int64_t size = size_of(to.view.dtype);
  for (std::int64_t v = 0; v < to.count; ++v) {
    std::memset(static_cast<std::byte*>(to.view.data) + to.row(v) * size, 0,
                static_cast<std::size_t>(dim_k * size));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tilegate::cpu_linear
HWY_AFTER_NAMESPACE();

#endif  // TILEGATE_CPU_LINEAR_STATE_PANELS_INL_H_
