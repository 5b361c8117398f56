// SPDX-License-Identifier: Apache-2.0
// A decode warp's loads: 16 rows of K and 16 of V of one KV head, gathered from pages into a stage
// [K 16 x dim][V 16 x dim], swizzled. Keys that no row may see arrive as zeros.
//
// Everything is asynchronous, page numbers too: with its copies of tile t a step asks for the pages
// of tile t + kStages, lane l for the page of key row l % 16, into a small ring. A load into a
// register would be waited for at the next warp barrier, and under load that is longer than a step.
// With the first tile of a unit come its query rows, shared by the four warps.
#pragma once

#include "kernel/attention/decode/schedule.cuh"
#include "kernel/ptx/cp_async.cuh"
#include "kernel/tile/swizzle.cuh"

namespace tilegate::kernel {

// What the copies of one tile need. Where 16 keys always share a page only page[0] is used.
struct alignas(16) PageEntry {
  int kv_head;  // -1: there is no tile
  int row_block;
  int request;
  int query_slot;    // where the unit's query rows go; -1: they are there already
  unsigned visible;  // bit r: some row sees key r of the tile
  int first_slot;    // place of key 0 in its page
  int unused[2];
  int page[16];  // of each key
};

static_assert(sizeof(PageEntry) == kDecodeEntryBytes);

template <int kDim, int kStages, int kQuerySlots>
class DecodeLoader {
 public:
  static constexpr int kKeys = 16;
  static constexpr int kTileBytes = kKeys * kDim * 2;
  static constexpr int kStageBytes = 2 * kTileBytes;
  static constexpr int kQueryBytes = 16 * kDim * 2;  // of one slot
  static constexpr int kEntries = kStages + 1;
  // Steps before the first tile is in its stage: its pages, then its rows.
  static constexpr int kLead = 2 * kStages - 1;

  // Shared addresses of this warp's part of stage 0 (parts of a stage lie side by side) and of the
  // block's query slots.
  __device__ __forceinline__ DecodeLoader(const Cursor& start, PageEntry* entries,
                                          std::uint32_t stages, std::uint32_t queries)
      : cursor_(start), entries_(entries), stages_(stages), queries_(queries) {
    --cursor_.tile;  // the first step steps onto it
  }

  // Starts the copies of one tile and asks for the pages of a later one. Before every call the
  // groups of all but the last kStages - 1 calls have been awaited, by the whole warp.
  __device__ __forceinline__ void step(const DecodeParams& p) {
    if (waiting_ == 0) {
      copy(p, entries_[reader_]);
      reader_ = reader_ + 1 == kEntries ? 0 : reader_ + 1;
    } else {
      --waiting_;
    }
    look_up(p, entries_[writer_]);
    writer_ = writer_ + 1 == kEntries ? 0 : writer_ + 1;
  }

  // The stage that the next copies will fill; nothing in it is in flight or waits to be read.
  __device__ __forceinline__ int free_stage() const { return stage_; }

 private:
  static constexpr int kLanesPerRow = 8;  // 128 bytes side by side
  static constexpr int kRowsPerCopy = 32 / kLanesPerRow;
  static constexpr int kCopiesPerRow = kDim / 8 / kLanesPerRow;

  // Steps to the next tile; false after the last.
  __device__ __forceinline__ bool advance(const DecodeParams& p) {
    if (cursor_.done()) return false;
    ++cursor_.tile;
    while (cursor_.tile >= cursor_.tile_end) {
      cursor_.next_segment(p);
      if (cursor_.done()) return false;
    }
    return true;
  }

  __device__ __forceinline__ void look_up(const DecodeParams& p, PageEntry& entry) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int warp = worker_thread() / 32;
    const bool found = advance(p);
    if (!found) {
      if (lane == 0) entry.kv_head = -1;
      return;
    }
    const bool new_unit = unit_ != cursor_.unit();
    if (new_unit) {
      unit_ = cursor_.unit();
      pages_ = first_page(p.table, cursor_.request);
    }
    const int first = cursor_.tile * kDecodeTileKeys + warp * kKeys;
    const int oldest = p.window_left < 0 ? 0 : cursor_.span.kv_len - p.q_len - p.window_left;
    // Keys [oldest, kv_len) of the request.
    const unsigned below_end = (1u << min(max(cursor_.span.kv_len - first, 0), kKeys)) - 1u;
    const unsigned too_old = (1u << min(max(oldest - first, 0), kKeys)) - 1u;
    const unsigned visible = below_end & ~too_old;
    const int key = first + (p.keys_share_page != 0 ? 0 : lane % kKeys);
    const KeyPlace place = place_of(p.table, key);
    if (lane == 0) {
      entry.kv_head = cursor_.kv_head;
      entry.row_block = cursor_.row_block;
      entry.request = cursor_.request;
      entry.query_slot = new_unit ? query_slot_ : -1;
      entry.visible = visible;
      entry.first_slot = place.slot;
    }
    if (new_unit) query_slot_ = query_slot_ + 1 >= kQuerySlots ? 0 : query_slot_ + 1;
    const bool asks = p.keys_share_page != 0 ? lane == 0 && visible != 0
                                             : lane < kKeys && (visible >> lane & 1u) != 0;
    if (asks) {
      ptx::cp_async_4(ptx::shared_address(&entry.page[lane]),
                      entry_at(pages_, p.table.pages, place.ordinal), 4);
    }
  }

  __device__ __forceinline__ void copy(const DecodeParams& p, const PageEntry& entry) {
    if (entry.kv_head < 0) return;
    const std::uint32_t stage = stages_ + stage_ * (kDecodeWarps * kStageBytes);
    stage_ = stage_ + 1 == kStages ? 0 : stage_ + 1;
    const char* k = static_cast<const char*>(p.k) + 2 * (entry.kv_head * p.k_head);
    const char* v = static_cast<const char*>(p.v) + 2 * (entry.kv_head * p.v_head);
    if (p.keys_share_page != 0) {
      copy_page(p, entry, stage, k, v);
    } else {
      const int row = static_cast<int>(threadIdx.x % kKeys);
      // Nothing is read of a key that no row sees, but its address must be one.
      const bool seen = (entry.visible >> row & 1u) != 0;
      const std::int64_t page = seen ? entry.page[row] : 0;
      // The key of row r lies r slots further, in this page or in one of the next.
      const std::int64_t slot = seen ? (entry.first_slot + row) % p.table.page_size : 0;
      gather_rows(stage, entry.visible, k, 2 * (page * p.k_page + slot * p.k_slot));
      gather_rows(stage + kTileBytes, entry.visible, v, 2 * (page * p.v_page + slot * p.v_slot));
    }
    if constexpr (kQuerySlots > 0) {
      if (entry.query_slot >= 0) copy_queries(p, entry);
    }
  }

  // Eight lanes copy 128 bytes of a row side by side. Rows r and r + 8 share a swizzle.
  static __device__ __forceinline__ void copy_row(std::uint32_t stage, int row, unsigned visible,
                                                  const char* from) {
    const int chunk = static_cast<int>(threadIdx.x % kLanesPerRow);
    const int bytes = (visible >> row & 1u) != 0 ? 16 : 0;
    const std::uint32_t to =
        stage + tile::swizzled_offset<kDim>(row % 8, chunk) + row / 8 * (8 * kDim * 2);
#pragma unroll
    for (int c = 0; c < kCopiesPerRow; ++c) {
      // The swizzle permutes within eight chunks only.
      constexpr int kStep = kLanesPerRow * 16;
      ptx::cp_async_16(to + c * kStep, from + chunk * 16 + c * kStep, bytes);
    }
  }

  // All keys in one page: rows at equal distances.
  static __device__ __forceinline__ void copy_page(const DecodeParams& p, const PageEntry& entry,
                                                   std::uint32_t stage, const char* k,
                                                   const char* v) {
    const int first_row = static_cast<int>(threadIdx.x % 32) / kLanesPerRow;
    const std::int64_t page = entry.visible != 0 ? entry.page[0] : 0;
    const std::int64_t slot = entry.first_slot + first_row;
    k += 2 * (page * p.k_page + slot * p.k_slot);
    v += 2 * (page * p.v_page + slot * p.v_slot);
#pragma unroll
    for (int i = 0; i < kKeys / kRowsPerCopy; ++i) {
      const int row = i * kRowsPerCopy + first_row;
      copy_row(stage, row, entry.visible, k + 2 * i * kRowsPerCopy * p.k_slot);
      copy_row(stage + kTileBytes, row, entry.visible, v + 2 * i * kRowsPerCopy * p.v_slot);
    }
  }

  // `offset`: bytes from `cache` to the row that this lane looked up.
  static __device__ __forceinline__ void gather_rows(std::uint32_t stage, unsigned visible,
                                                     const char* cache, std::int64_t offset) {
    const int first_row = static_cast<int>(threadIdx.x % 32) / kLanesPerRow;
#pragma unroll
    for (int i = 0; i < kKeys / kRowsPerCopy; ++i) {
      const int row = i * kRowsPerCopy + first_row;
      copy_row(stage, row, visible, cache + __shfl_sync(tile::kFullWarp, offset, row));
    }
  }

  // This warp's four of the unit's 16 query rows, eight lanes a row, in 4-byte words: q may start
  // on any even element.
  __device__ __forceinline__ void copy_queries(const DecodeParams& p,
                                               const PageEntry& entry) const {
    constexpr int kWords = kDim / 2;
    const int row = worker_thread() / 8;
    const RowPlace place = row_place(p, entry.kv_head, entry.row_block, row);
    const auto* from = static_cast<const std::uint16_t*>(p.q);
    if (place.valid) {
      from += entry.request * p.q_batch + place.token * p.q_row + place.head * p.q_head;
    }
    const std::uint32_t to = queries_ + entry.query_slot * kQueryBytes;
#pragma unroll
    for (int i = 0; i < kWords / 8; ++i) {
      const int word = i * 8 + static_cast<int>(threadIdx.x % 8);
      ptx::cp_async_4(to + tile::swizzled_offset<kDim>(row, word / 4) + word % 4 * 4,
                      from + word * 2, place.valid ? 4 : 0);
    }
  }

  Cursor cursor_;  // the tile whose pages are being asked for
  PageEntry* entries_;
  std::uint32_t stages_;
  std::uint32_t queries_;
  const int* pages_ = nullptr;
  int waiting_ = kStages;  // steps until the first pages are there
  int stage_ = 0;
  int reader_ = 0;
  int writer_ = 0;
  int unit_ = -1;  // whose pages `pages_` are
  int query_slot_ = 0;
};

}  // namespace tilegate::kernel
