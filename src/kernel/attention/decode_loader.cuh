// SPDX-License-Identifier: Apache-2.0
// A decode warp's loads: 16 rows of K and 16 of V of one KV head, gathered from pages into a stage
// [K 16 x dim][V 16 x dim], swizzled. Lane l looks up the page of key row l % 16 one tile ahead of
// the copies, which then only shuffle row offsets. Keys that no row may see arrive as zeros.
#pragma once

#include "kernel/attention/decode_schedule.cuh"
#include "kernel/ptx/cp_async.cuh"
#include "kernel/tile/swizzle.cuh"

namespace tilegate::kernel {

template <int kDim, int kStages>
class DecodeLoader {
 public:
  static constexpr int kKeys = 16;
  static constexpr int kTileBytes = kKeys * kDim * 2;
  static constexpr int kStageBytes = 2 * kTileBytes;

  // `stages` is the shared address of this warp's part of stage 0; parts of a stage lie side by
  // side.
  __device__ __forceinline__ DecodeLoader(const Cursor& start, std::uint32_t stages)
      : cursor_(start), stages_(stages) {
    --cursor_.tile;  // the first issue() steps onto it
  }

  // Starts the copies of the tile looked up last time (none the first time and after the last
  // tile), and looks up the next one.
  __device__ __forceinline__ void issue(const DecodeParams& p) {
    if (found_) {
      copy(p, stages_ + stage_ * (kDecodeWarps * kStageBytes));
      stage_ = stage_ + 1 == kStages ? 0 : stage_ + 1;
    }
    found_ = false;
    if (cursor_.done()) return;
    ++cursor_.tile;
    while (cursor_.tile >= cursor_.tile_end) {
      cursor_.next_segment(p);
      if (cursor_.done()) return;
    }
    look_up(p);
  }

  // The stage that the next copies will fill; nothing in it is in flight or waits to be read.
  __device__ __forceinline__ int free_stage() const { return stage_; }

 private:
  static constexpr int kLanesPerRow = 8;  // 128 bytes side by side
  static constexpr int kRowsPerCopy = 32 / kLanesPerRow;
  static constexpr int kCopiesPerRow = kDim / 8 / kLanesPerRow;

  // Starts loading the page of this lane's key.
  __device__ __forceinline__ void look_up(const DecodeParams& p) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int warp = static_cast<int>(threadIdx.x / 32);
    const int key = cursor_.tile * kDecodeTileKeys + warp * kKeys + lane % kKeys;
    const int oldest = p.window_left < 0 ? 0 : cursor_.span.kv_len - p.q_len - p.window_left;
    const bool visible = key < cursor_.span.kv_len && key >= oldest;
    visible_ = __ballot_sync(tile::kFullWarp, visible);
    found_ = true;
    head_ = cursor_.kv_head;
    page_ = slot_ = 0;  // nothing is read of a key that no row sees, but its address must be one
    if (!visible) return;
    if (request_ != cursor_.request) {
      request_ = cursor_.request;
      pages_ = first_page(p.table, request_);
    }
    const KeyPlace place = place_of(p.table, key);
    page_ = page_at(p.table, pages_, place.ordinal);
    slot_ = place.slot;
  }

  __device__ __forceinline__ void copy(const DecodeParams& p, std::uint32_t stage) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int chunk = lane % kLanesPerRow;
    const int first_row = lane / kLanesPerRow;
    const char* k = static_cast<const char*>(p.k) + 2 * (head_ * p.k_head + chunk * 8);
    const char* v = static_cast<const char*>(p.v) + 2 * (head_ * p.v_head + chunk * 8);
    const std::int64_t k_offset = 2 * (page_ * p.k_page + slot_ * p.k_slot);
    std::int64_t v_offset = k_offset;
    if (p.same_kv_strides == 0) v_offset = 2 * (page_ * p.v_page + slot_ * p.v_slot);
    // Rows first_row and first_row + 8 share a swizzle, and so do the other two.
    const std::uint32_t even = stage + tile::swizzled_offset<kDim>(first_row, chunk);
    const std::uint32_t odd = stage + tile::swizzled_offset<kDim>(first_row + kRowsPerCopy, chunk);
#pragma unroll
    for (int i = 0; i < kKeys / kRowsPerCopy; ++i) {
      const int row = i * kRowsPerCopy + first_row;
      const int bytes = (visible_ >> row & 1u) != 0 ? 16 : 0;
      const std::int64_t k_row = __shfl_sync(tile::kFullWarp, k_offset, row);
      std::int64_t v_row = k_row;
      if (p.same_kv_strides == 0) v_row = __shfl_sync(tile::kFullWarp, v_offset, row);
      const std::uint32_t to = (i % 2 == 0 ? even : odd) + i / 2 * (8 * kDim * 2);
#pragma unroll
      for (int c = 0; c < kCopiesPerRow; ++c) {
        // The swizzle permutes within eight chunks only.
        constexpr int kStep = kLanesPerRow * 16;
        ptx::cp_async_16(to + c * kStep, k + k_row + c * kStep, bytes);
        ptx::cp_async_16(to + c * kStep + kTileBytes, v + v_row + c * kStep, bytes);
      }
    }
  }

  Cursor cursor_;  // the tile whose pages are being looked up
  std::uint32_t stages_;
  int stage_ = 0;
  bool found_ = false;
  unsigned visible_ = 0;
  const int* pages_ = nullptr;
  int request_ = -1;  // whose pages `pages_` are
  int page_ = 0;
  int slot_ = 0;
  int head_ = 0;
};

}  // namespace tilegate::kernel
