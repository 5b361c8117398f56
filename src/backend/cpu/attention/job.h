// SPDX-License-Identifier: Apache-2.0
// The plain data of a cpu.flash launch: tile sizes, scratch of one worker, one item of work. Shared
// by the planner's side, the launch and the SIMD kernel, and free of SIMD headers.
//
// A tile is up to kRowTile packed rows of one request and one KV head: row r is query row r / group
// of head kv_head * group + r % group, so all query heads of a KV head share its loads. An item is
// a tile, or, when rows are few, that tile of several KV heads: their keys are often neighbours in
// memory, and the machine reads long runs faster.
// Keys are walked in tiles of key_tile inside splits whose bounds are multiples of the split size,
// counted from the request's first key: nothing but the position of a key decides which tile and
// split it is in, and so in which order it is summed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "problem/attention.h"

namespace tilegate::cpu {

inline constexpr int kRowTile = 96;  // whole vectors for 4, 8 and 16 lanes; Q and O stay in L2
inline constexpr int kKeyTile = 64;  // K or V, and P, of a 128-wide head stay in L2 with them
// With few rows a key is used a few times only: K or V, Q and P must stay in L1.
inline constexpr int kDecodeKeyTile = 32;
inline constexpr int kDirectRows = 8;  // up to here keys are used where they lie, not copied
inline constexpr int kMaxLanes = 16;
inline constexpr int kMaxHeadDim = 256;
inline constexpr int kFewRows = 32;  // padded; up to here a tile is bound by memory
inline constexpr int kMaxItemHeads = 8;

constexpr std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Running softmax state of a tile: o is the sum of p v, not yet divided by l. One block of memory.
struct FlashState {
  float* o = nullptr;       // [tile rows, dim_v padded]
  float* m = nullptr;       // [tile rows] largest logit so far, natural units; -inf: no key yet
  float* l = nullptr;       // [tile rows] sum of exp(s - m)
  std::int64_t floats = 0;  // from one KV head's state to the next

  FlashState of_head(int head) const {
    const std::int64_t at = head * floats;
    return {o + at, m + at, l + at, floats};
  }
};

// Scratch of one worker, fp32, 64-byte aligned pieces. `rows` is the tile's rows in whole vectors.
struct FlashScratch {
  float* q = nullptr;  // [heads of the item, dim_qk, rows] transposed; direct: [.., rows, dim_qk]
  float* p = nullptr;  // [key tile, rows] logits, then probabilities, transposed
  float* k = nullptr;  // [key tile, dim_qk]
  float* v = nullptr;  // [key tile, dim_v padded], in the same place: K is done by then
  FlashState part;     // of the split at hand, a head after the other
  FlashState total;    // of the splits before it
  float* alpha = nullptr;         // [rows] rescale of the state before the current tile
  float* first = nullptr;         // [rows] first visible key of each row, within the tile
  float* last = nullptr;          // [rows] one past the last
  float* allowed = nullptr;       // [key tile, rows] 1 where a custom mask lets through; or null
  std::int64_t* begin = nullptr;  // [rows] visible keys of each row in the request
  std::int64_t* end = nullptr;
};

struct FlashItem {
  std::int64_t request = 0;
  std::int64_t kv_head = 0;    // the first
  int heads = 1;               // KV heads
  std::int64_t row_begin = 0;  // packed row
  int rows = 0;
  std::int64_t qo_len = 0;
  std::int64_t kv_len = 0;
  std::int64_t mask_begin = 0;   // first byte of the request's custom mask
  std::int64_t split_begin = 0;  // splits to walk
  std::int64_t split_end = 0;
};

struct FlashJob {
  const AttentionProblem* problem = nullptr;
  std::int64_t kv_split = 0;  // keys a split; 0: one split
  int key_tile = kKeyTile;
};

// Splits of a request with `kv_len` keys; at least 1.
constexpr std::int64_t split_count(std::int64_t kv_len, std::int64_t kv_split) {
  return kv_split > 0 && kv_len > kv_split ? (kv_len - 1) / kv_split + 1 : 1;
}

// Walks the item's splits in order. Returns where the states are: scratch.part when the item has
// one split, else part or total.
FlashState flash_walk(const FlashJob& job, const FlashItem& item, const FlashScratch& scratch);

// total = total + part, in that order. Rows of `part` without keys are not read.
void flash_fold(const AttentionProblem& problem, int rows, const FlashState& part,
                const FlashState& total);

// Adds the sinks, divides, and stores o and lse of the item's first KV head.
void flash_store(const FlashJob& job, const FlashItem& item, const FlashState& state);

}  // namespace tilegate::cpu
