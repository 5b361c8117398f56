// SPDX-License-Identifier: Apache-2.0
// Parameters of the paged decode kernels (decode.cuh, combine.cuh). Host-safe.
//
// Every request has q_len query rows and `group` query heads a KV head; the rows = q_len * group of
// one (request, KV head), row r = token r / group, head r % group, share its keys and are packed on
// the tensor cores, at most kRowsPerTile * m_tiles of them together (a row block).
#pragma once

#include <cstdint>

#include "kernel/attention/page_table_params.h"

namespace tilegate::kernel {

// Keys that a block multiplies in one step: 16 for each of four warps. Splits begin at multiples.
inline constexpr int kDecodeTileKeys = 64;
inline constexpr int kDecodeTileRows = 16;
inline constexpr int kDecodeWarps = 4;
// decode_unit: tiles that a block reads in the time that merging split units takes.
inline constexpr int kSplitTiles = 4;
inline constexpr int kDecodeEntryBytes = 96;  // a warp's page numbers of one tile

// How the keys of all (head, request) units are cut for the workers (blocks).
enum class DecodeCut : int {
  kEven,    // all tiles in one line, cut into equal ranges, whatever units they belong to
  kPinned,  // at multiples of granule_tiles from each request's key 0: bits know no batch
};

struct DecodeParams {
  const void* q = nullptr;  // [batch, q_len, heads_q, dim], innermost contiguous
  const void* k = nullptr;  // [pages, page_size, heads_kv, dim]
  const void* v = nullptr;
  void* o = nullptr;                                // [batch, q_len, heads_q, dim]
  float* lse = nullptr;                             // [batch, q_len, heads_q]; may be null
  const float* sinks = nullptr;                     // [heads_q]; may be null
  std::int64_t q_batch = 0, q_row = 0, q_head = 0;  // strides in elements
  std::int64_t o_batch = 0, o_row = 0, o_head = 0;
  std::int64_t lse_batch = 0, lse_row = 0, lse_head = 0;
  std::int64_t k_page = 0, k_slot = 0, k_head = 0;
  std::int64_t v_page = 0, v_slot = 0, v_head = 0;
  std::int64_t sink_stride = 1;
  PageTableParams table;

  int batch = 0;
  int heads_kv = 0;
  int group = 1;
  int q_len = 1;
  int row_blocks = 1;       // row blocks a (request, KV head)
  int block_rows = 16;      // rows of a full row block; the last may have fewer
  int keys_share_page = 0;  // 1: page_size is a multiple of the 16 keys that a warp takes
  int window_left = -1;     // -1: unlimited
  float scale_log2 = 0.0f;  // scale * log2 e; with a soft cap: scale / cap
  float cap_log2 = 0.0f;    // cap * log2 e; 0: no soft cap
  float lse_scale = 1.0f;   // from base 2 to the base asked for

  DecodeCut cut = DecodeCut::kEven;
  int granule_tiles = 1;  // kEven: 1
  int max_granules = 1;   // kPinned: of a request
  int workers = 1;        // blocks of the decode kernel
  // Partial results of units that several workers share, normalised: [slots, block_rows, dim] and
  // their base-2 lse [slots, block_rows]. kEven: slots 2w and 2w + 1 are worker w's first and last
  // segment. kPinned: the granule's number.
  float* partial_o = nullptr;
  float* partial_lse = nullptr;
  int* unit_slots = nullptr;      // kPinned: slot of each unit's first granule
  std::uint32_t* tags = nullptr;  // [workers][4], tag.cuh; null: decode_combine merges
  int unit_blocks = 0;            // decode_unit: blocks of a cluster, which may take a unit
};

}  // namespace tilegate::kernel
