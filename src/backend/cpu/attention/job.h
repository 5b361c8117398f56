// SPDX-License-Identifier: Apache-2.0
// The plain data of a cpu.flash launch: tile sizes, scratch of one worker, one tile of work. Shared
// by the planner's side, the launch and the SIMD kernel, and free of SIMD headers.
//
// A tile of work is up to kRowTile packed rows of one (request, KV head): row r is query row
// r / group of head kv_head * group + r % group, so all query heads of a KV head share its loads.
// Keys are walked in tiles of kKeyTile inside splits whose bounds are multiples of the split size,
// counted from the request's first key: nothing but the position of a key decides which tile and
// split it is in, and so in which order it is summed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "problem/attention.h"

namespace tilegate::cpu {

inline constexpr int kRowTile = 96;  // whole vectors for 4, 8 and 16 lanes; Q and O stay in L2
inline constexpr int kKeyTile = 64;  // K, V and P tiles of a 128-wide head stay in L2 with them
inline constexpr int kMaxLanes = 16;
inline constexpr int kMaxHeadDim = 256;

constexpr std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Running softmax state of a tile: o is the sum of p v, not yet divided by l.
struct FlashState {
  float* o = nullptr;  // [kRowTile, dim_v_padded]
  float* m = nullptr;  // [kRowTile] largest logit so far, natural units; -inf: no key yet
  float* l = nullptr;  // [kRowTile] sum of exp(s - m)
};

// Scratch of one worker, fp32, 64-byte aligned pieces. `rows` is the tile's rows rounded up to
// whole vectors.
struct FlashScratch {
  float* q = nullptr;             // [dim_qk, rows] transposed
  float* p = nullptr;             // [kKeyTile, rows] logits, then probabilities, transposed
  float* k = nullptr;             // [kKeyTile, dim_qk]
  float* v = nullptr;             // [kKeyTile, dim_v_padded]
  FlashState part;                // of the split at hand
  FlashState total;               // of the splits before it
  float* alpha = nullptr;         // [kRowTile] rescale of the state before the current tile
  float* first = nullptr;         // [kRowTile] first visible key of each row, within the tile
  float* last = nullptr;          // [kRowTile] one past the last
  float* allowed = nullptr;       // [kKeyTile, rows] 1 where a custom mask lets through; or null
  std::int64_t* begin = nullptr;  // [kRowTile] visible keys of each row in the request
  std::int64_t* end = nullptr;
};

struct FlashItem {
  std::int64_t request = 0;
  std::int64_t kv_head = 0;
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
};

// Lays out one worker's scratch from `base` (64-byte aligned). Returns the bytes used, a multiple
// of 64; with a null base it only measures.
std::size_t lay_out_scratch(const AttentionProblem& problem, std::byte* base,
                            FlashScratch* scratch);

// Splits of a request with `kv_len` keys; at least 1.
constexpr std::int64_t split_count(std::int64_t kv_len, std::int64_t kv_split) {
  return kv_split > 0 && kv_len > kv_split ? (kv_len + kv_split - 1) / kv_split : 1;
}

// Walks the item's splits in order. Returns where the state is: scratch.part when the item has one
// split, else part or total.
FlashState flash_walk(const FlashJob& job, const FlashItem& item, const FlashScratch& scratch);

// total = total + part, in that order. Rows of `part` without keys are not read.
void flash_fold(const AttentionProblem& problem, int rows, const FlashState& part,
                const FlashState& total);

// Makes `state` that of rows without keys.
void flash_clear(const AttentionProblem& problem, int rows, const FlashState& state);

// Adds the sinks, divides, and stores o and lse of the item.
void flash_store(const FlashJob& job, const FlashItem& item, const FlashState& state);

}  // namespace tilegate::cpu
