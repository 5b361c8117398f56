// SPDX-License-Identifier: Apache-2.0
// Which keys a decode worker multiplies, found on the device from the lengths alone.
//
// The KV tiles of a request, cut into granules, stand in one line: for each head (and row block of
// it), for each request, its granules. The line is cut into equal ranges, one a worker. Heads are
// the slowest index, so workers of different heads read the same pages at about the same time.
// Cost: one prefix sum over the batch a block (512 requests a step). The code is kept small: every
// call begins with it, and instruction fetches are a large part of a short call.
#pragma once

#include "kernel/attention/decode/worker.cuh"
#include "kernel/attention/page_table.cuh"
#include "kernel/tile/reduce.cuh"

namespace tilegate::kernel {

// kv_len of a request with more granules than the workspace has room for: it becomes NaN.
inline constexpr int kTooLong = -1;

// Tiles [first_tile, end_tile) of a request hold every key that some row may see; granules are
// counted from the request's key 0. A request without keys has one granule without tiles, and so
// has one that is too long.
struct RequestSpan {
  int kv_len;
  int first_tile;
  int end_tile;
  int first_granule;
  int granules;
};

__device__ __forceinline__ RequestSpan request_span(const DecodeParams& p, int b) {
  RequestSpan span;
  span.kv_len = request_length(p.table, b);
  const int oldest = p.window_left < 0 ? 0 : max(0, span.kv_len - p.q_len - p.window_left);
  span.end_tile = (span.kv_len + kDecodeTileKeys - 1) / kDecodeTileKeys;
  span.first_tile = min(oldest / kDecodeTileKeys, span.end_tile);
  span.first_granule = span.first_tile;
  int end_granule = span.end_tile;
  if (p.cut == DecodeCut::kPinned) {
    span.first_granule = span.first_tile / p.granule_tiles;
    end_granule = (span.end_tile + p.granule_tiles - 1) / p.granule_tiles;
    if (end_granule - span.first_granule > p.max_granules) {
      span.kv_len = kTooLong;
      span.end_tile = span.first_tile;
      end_granule = span.first_granule;
    }
  }
  span.granules = max(1, end_granule - span.first_granule);
  return span;
}

// A line of `granules` cut for at most `workers`, of which each that works has a granule.
struct LineCut {
  int workers;
  int share;  // granules a worker; the first `extra` workers have one more
  int extra;

  __device__ __forceinline__ LineCut(int granules, int max_workers)
      : workers(min(granules, max_workers)),
        share(granules / workers),
        extra(granules - share * workers) {}
  __device__ __forceinline__ int begin(int worker) const {
    return worker * share + min(worker, extra);
  }
};

// Where a worker's range begins in the line, and whose granule that is.
struct LinePlace {
  int begin = 0;  // of the worker's range
  int end = 0;    // begin == end: the worker has nothing to do
  int head = 0;   // KV head * row_blocks + row block
  int request = 0;
  int unit_begin = 0;  // granule of the line at which (head, request) begins
  int per_head = 1;    // granules of one head

  // Sets the worker's range and its first head, from per_head. False: there is no work for it.
  __device__ __forceinline__ bool take(const DecodeParams& p, int worker) {
    const LineCut cut(per_head * p.heads_kv * p.row_blocks, p.workers);
    if (worker >= cut.workers) return false;
    begin = cut.begin(worker);
    end = cut.begin(worker + 1);
    head = begin / per_head;
    return true;
  }
};

struct ScheduleStorage {
  int warp_sums[32];
  int before;
  int request;
};

// The place of worker `worker`; 128 threads call it.
__device__ __forceinline__ LinePlace find_worker(const DecodeParams& p, int worker,
                                                 ScheduleStorage& storage) {
  constexpr int kItems = 4;
  constexpr int kThreads = kWorkerThreads;
  constexpr int kChunk = kThreads * kItems;
  const int lane = worker_thread() % 32;
  const int warp = worker_thread() / 32;
  LinePlace place;
  int base = 0;   // granules of the chunks before this one
  int rest = -1;  // the granule looked for, counted in its head; -1: still adding up
  for (int first = 0;;) {
    const int mine = first + worker_thread() * kItems;
    int granules[kItems];
    int sum = 0;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      granules[i] = mine + i < p.batch ? request_span(p, mine + i).granules : 0;
      sum += granules[i];
    }
    const int inclusive = tile::warp_prefix_sum(sum);
    worker_sync();  // readers of the last round are done
    if (lane == 31) storage.warp_sums[warp] = inclusive;
    worker_sync();
    int before = inclusive - sum;
    int total = 0;
#pragma unroll
    for (int w = 0; w < kThreads / 32; ++w) {
      if (w < warp) before += storage.warp_sums[w];
      total += storage.warp_sums[w];
    }
    if (rest < 0) {
      base += total;
      first += kChunk;
      if (first < p.batch) continue;
      place.per_head = base;
      if (!place.take(p, worker)) return place;
      rest = place.begin - place.head * base;
      base = first = 0;
      if (p.batch > kChunk) continue;
    }
    if (rest < base + total) {
      int at = base + before;
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        if (rest >= at && rest < at + granules[i]) {
          storage.request = mine + i;
          storage.before = at;
        }
        at += granules[i];
      }
      break;
    }
    base += total;
    first += kChunk;
  }
  worker_sync();
  place.request = storage.request;
  place.unit_begin = place.head * place.per_head + storage.before;
  return place;
}

// Whether every unit is worth blocks of its own: no request is much longer than the mean. A warp
// asks, each for itself.
__device__ __forceinline__ bool units_balanced(const DecodeParams& p) {
  if (p.batch == 1) return true;
  int total = 0;
  int longest = 0;
  for (int b = static_cast<int>(threadIdx.x % 32); b < p.batch; b += 32) {
    const int tiles = request_span(p, b).granules;
    total += tiles;
    longest = max(longest, tiles);
  }
  total = __reduce_add_sync(tile::kFullWarp, total);
  longest = __reduce_max_sync(tile::kFullWarp, longest);
  // A fifth over the mean, or what the split's second kernel costs.
  const std::int64_t spare = std::int64_t{kSplitTiles} * p.unit_blocks;
  return 5 * (longest - spare) * p.batch <= std::int64_t{6} * total;
}

// Walks a worker's segments: runs of tiles of one unit that become one result.
struct Cursor {
  int kv_head = 0;
  int row_block = 0;
  int request = 0;
  RequestSpan span{};
  int offset = 0;  // granules of the unit before this segment
  int count = 0;   // granules of this segment
  int tile = 0;    // next tile of this segment
  int tile_end = 0;
  int position = 0;  // of the segment's first granule in the line
  int end = 0;       // where the worker stops

  __device__ __forceinline__ bool done() const { return position >= end; }
  // Number of the unit: where it begins in the line.
  __device__ __forceinline__ int unit() const { return position - offset; }
  __device__ __forceinline__ bool whole_unit() const { return count == span.granules; }

  __device__ __forceinline__ Cursor(const DecodeParams& p, const LinePlace& place)
      : kv_head(place.head / p.row_blocks),
        row_block(place.head - kv_head * p.row_blocks),
        request(place.request),
        span(request_span(p, place.request)),
        offset(place.begin - place.unit_begin),
        position(place.begin),
        end(place.end) {
    open(p);
  }

  __device__ __forceinline__ void next_segment(const DecodeParams& p) {
    position += count;
    offset += count;
    if (done()) return;
    if (offset == span.granules) {
      offset = 0;
      if (++request == p.batch) {
        request = 0;
        if (++row_block == p.row_blocks) {
          row_block = 0;
          ++kv_head;
        }
      }
      span = request_span(p, request);
    }
    open(p);
  }

 private:
  __device__ __forceinline__ void open(const DecodeParams& p) {
    if (p.cut == DecodeCut::kPinned) {
      const int first = span.first_granule + offset;
      count = 1;
      tile = max(span.first_tile, first * p.granule_tiles);
      tile_end = min(span.end_tile, (first + 1) * p.granule_tiles);
      return;
    }
    count = min(span.granules - offset, end - position);
    tile = span.first_tile + offset;
    tile_end = min(span.end_tile, tile + count);
  }
};

// Which query row of a request a packed row is.
struct RowPlace {
  int token;
  int head;  // query head
  bool valid;
};

__device__ __forceinline__ RowPlace row_place(const DecodeParams& p, int kv_head, int row_block,
                                              int row) {
  const int unit_row = row_block * p.block_rows + row;
  const int token = unit_row / p.group;
  return {token, kv_head * p.group + unit_row - token * p.group,
          row < p.block_rows && token < p.q_len};
}

}  // namespace tilegate::kernel
