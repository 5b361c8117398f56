// SPDX-License-Identifier: Apache-2.0
// Where the tokens and states of one sequence live, as problem/sequences.h defines it for the host:
// slots, skips and accepted counts, read from index arrays on the device.
#pragma once

#include "kernel/linear/decode_params.h"
#include "kernel/tile/element_load.cuh"

namespace tilegate::kernel {

inline constexpr std::int64_t kNoRow = -1;

struct SequencePlace {
  int seq = 0;
  int batch = 0;  // index in the leading dimension of token tensors
  int begin = 0;  // first token in the next one
  int len = 0;
  std::int64_t read_row = kNoRow;   // kNoRow: skipped, output rows zero, nothing else touched
  std::int64_t write_row = kNoRow;  // kNoRow: the final state is not stored
  bool seeded = false;              // starts from state_in, else from zero

  __device__ __forceinline__ bool skipped() const { return read_row == kNoRow; }
};

// Row i, column t of state_slots; < 0: none.
__device__ __forceinline__ std::int64_t slot_at(const SequenceParams& p, int seq, std::int64_t t) {
  return tile::load_index(p.state_slots, static_cast<int>(t), seq * p.slots_row);
}

__device__ __forceinline__ std::int64_t read_row_of(const SequenceParams& p, int seq,
                                                    std::int64_t read, std::int64_t accepted) {
  if (read < 0) return kNoRow;
  if (p.num_accepted.data == nullptr) return read;
  if (accepted > 0 || p.read_index.data == nullptr) {
    read = slot_at(p, seq, accepted > 0 ? accepted - 1 : 0);
  }
  return read < 0 ? kNoRow : read;
}

// The index values of a sequence, on their way: loads are issued together and waited for when a
// place is made of them.
struct RawPlace {
  tile::RawIndex begin, end, read, write, accepted;
  std::uint8_t initial = 1;
};

__device__ __forceinline__ RawPlace load_place(const SequenceParams& p, int seq) {
  RawPlace raw;
  if (p.read_index.data != nullptr) raw.read = tile::load_raw_index(p.read_index, seq);
  if (p.plain != 0) return raw;
  if (p.cu_seqlens.data != nullptr) {
    raw.begin = tile::load_raw_index(p.cu_seqlens, seq);
    raw.end = tile::load_raw_index(p.cu_seqlens, seq + 1);
  }
  if (p.write_index.data != nullptr) raw.write = tile::load_raw_index(p.write_index, seq);
  if (p.num_accepted.data != nullptr) raw.accepted = tile::load_raw_index(p.num_accepted, seq);
  if (p.has_initial != nullptr) raw.initial = p.has_initial[seq * p.has_initial_stride];
  return raw;
}

// The tokens of the sequence; the states follow in place_states.
__device__ __forceinline__ SequencePlace place_tokens(const SequenceParams& p, int seq,
                                                      const RawPlace& raw) {
  SequencePlace place;
  place.seq = seq;
  place.batch = seq;
  place.len = p.uniform_len;
  if (p.plain != 0 || p.cu_seqlens.data == nullptr) return place;
  place.batch = 0;
  place.begin = static_cast<int>(tile::index_of(p.cu_seqlens, raw.begin));
  place.len = static_cast<int>(tile::index_of(p.cu_seqlens, raw.end)) - place.begin;
  return place;
}

__device__ __forceinline__ void place_states(const SequenceParams& p, const RawPlace& raw,
                                             bool has_state_in, SequencePlace& place) {
  std::int64_t read = place.seq;
  if (p.read_index.data != nullptr) read = tile::index_of(p.read_index, raw.read);
  place.seeded = has_state_in;
  place.read_row = read < 0 ? kNoRow : read;
  place.write_row = p.store_final != 0 ? place.read_row : kNoRow;
  if (p.plain != 0) return;
  std::int64_t write = read;
  if (p.write_index.data != nullptr) write = tile::index_of(p.write_index, raw.write);
  const std::int64_t accepted = tile::index_of(p.num_accepted, raw.accepted);
  place.read_row = read_row_of(p, place.seq, read, accepted);
  place.write_row = p.store_final == 0 || place.skipped() || write < 0 ? kNoRow : write;
  place.seeded = has_state_in && raw.initial != 0;
}

// Row of state_out for the state after token t; kNoRow: it is not stored.
__device__ __forceinline__ std::int64_t slot_row(const SequenceParams& p,
                                                 const SequencePlace& place, int t) {
  if (p.state_slots.data == nullptr) return kNoRow;
  const std::int64_t row = slot_at(p, place.seq, t);
  return row < 0 ? kNoRow : row;
}

// Row of checkpoints for the state after `tokens` tokens; kNoRow: it is none.
__device__ __forceinline__ std::int64_t checkpoint_row(const CheckpointParams& p,
                                                       const SequencePlace& place, int tokens) {
  if (p.every == 0 || tokens % p.every != 0) return kNoRow;
  const int number = tokens / p.every - (p.before != 0 ? 0 : 1);
  if (number < 0 || (p.before != 0 && tokens >= place.len)) return kNoRow;
  std::int64_t row = tile::load_index(p.starts, place.seq) + number;
  if (p.rows.data != nullptr) row = tile::load_index(p.rows, static_cast<int>(row));
  return row < 0 ? kNoRow : row;
}

}  // namespace tilegate::kernel
