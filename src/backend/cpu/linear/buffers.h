// SPDX-License-Identifier: Apache-2.0
// Scratch memory of one worker that walks chunks of the delta rule, cut from the launch workspace.
// The same function sizes the slice and fills in the pointers. All matrices are fp32 and row-major;
// rows of K floats are padded with zeros to key_pitch, so that vector loops need no tail. Matrices
// over V columns are stored panel by panel: panel p holds [rows][panel] floats without gaps, and
// `panel` is twice the vector length, at most kMaxPanel.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tilegate::cpu_linear {

inline constexpr std::int64_t kChunk = 64;  // rows of a chunk, pinned by position in a sequence
inline constexpr std::int64_t kBlock = 16;  // rows between gate restarts and of a solve
inline constexpr std::int64_t kBlocks = kChunk / kBlock;
inline constexpr std::int64_t kMaxPanel = 32;  // V columns of the widest panel

constexpr std::int64_t round_up(std::int64_t x, std::int64_t unit) {
  return (x + unit - 1) / unit * unit;
}

struct ChunkDims {
  std::int64_t dim_k = 0;
  std::int64_t columns = 0;  // value columns of the widest walk (K for a transition matrix)
  std::int64_t heads = 1;    // heads that walk side by side, at most
  std::int64_t key_pitch() const { return round_up(dim_k, 16); }
  std::int64_t column_pitch() const { return round_up(columns, kMaxPanel); }
  std::int64_t state_floats() const { return dim_k * column_pitch(); }  // of one head
};

struct ChunkBuffers {
  ChunkDims dims;
  float* keys = nullptr;   // [kChunk][key_pitch] keys as used; channel gates: scaled to block end
  float* erase = nullptr;  // [kChunk][key_pitch] erase * key, at last scaled to the chunk start
  float* query = nullptr;  // [kChunk][key_pitch] queries, at last scaled to the chunk start
  float* raw_query = nullptr;     // [kChunk][key_pitch] queries as used, for scalar gates
  float* key_pairs = nullptr;     // [kChunk][kChunk] key . key, lower, for scalar gates
  float* query_pairs = nullptr;   // [kChunk][kChunk] query . key, lower, for scalar gates
  float* decay = nullptr;         // [kChunk][key_pitch] per-channel decay of each row
  float* keys_t = nullptr;        // [K][kChunk] keys transposed
  float* tail_t = nullptr;        // [K][kChunk] keys transposed and decayed to the end of the rows
  float* lower = nullptr;         // [kChunk][kChunk] L: strictly lower, erase against earlier keys
  float* reads = nullptr;         // [kChunk][kChunk] P: lower, query against keys
  float* block_decay = nullptr;   // [kBlocks][key_pitch] decay over each block
  float* prefix_decay = nullptr;  // [kBlocks + 1][key_pitch] decay from chunk start to a boundary
  float* boundary_gamma = nullptr;  // [kBlocks][kChunk] scalar decay of row j up to a boundary
  float* row_decay = nullptr;       // [kChunk] scalar decay of each row
  float* row_erase = nullptr;       // [kChunk] scalar erase of each row
  float* state = nullptr;           // [heads][K] x columns, panels
  float* saved = nullptr;   // [K] x columns, panels: the state at a checkpoint inside a chunk
  float* delta = nullptr;   // [kChunk] x columns, panels: W v, then Y
  float* output = nullptr;  // [kChunk][kMaxPanel] one panel of outputs
  float* rows = nullptr;    // [4][max(key_pitch, column_pitch)] converted rows

  std::int64_t row_pitch() const {
    return dims.key_pitch() > dims.column_pitch() ? dims.key_pitch() : dims.column_pitch();
  }
};

// Bytes of a slice, a multiple of 64; fills `buffers` when base is not null.
inline std::size_t lay_out(const ChunkDims& dims, std::byte* base, ChunkBuffers* buffers) {
  ChunkBuffers local;
  ChunkBuffers& b = buffers != nullptr ? *buffers : local;
  b.dims = dims;
  std::size_t used = 0;
  const auto take = [&](float*& pointer, std::int64_t floats) {
    pointer = base != nullptr ? reinterpret_cast<float*>(base + used) : nullptr;
    used += static_cast<std::size_t>(round_up(floats, 16)) * sizeof(float);
  };
  const std::int64_t pitch = dims.key_pitch();
  take(b.keys, kChunk * pitch);
  take(b.erase, kChunk * pitch);
  take(b.query, kChunk * pitch);
  take(b.raw_query, kChunk * pitch);
  take(b.key_pairs, kChunk * kChunk);
  take(b.query_pairs, kChunk * kChunk);
  take(b.decay, kChunk * pitch);
  take(b.keys_t, dims.dim_k * kChunk);
  take(b.tail_t, dims.dim_k * kChunk);
  take(b.lower, kChunk * kChunk);
  take(b.reads, kChunk * kChunk);
  take(b.block_decay, kBlocks * pitch);
  take(b.prefix_decay, (kBlocks + 1) * pitch);
  take(b.boundary_gamma, kBlocks * kChunk);
  take(b.row_decay, kChunk);
  take(b.row_erase, kChunk);
  take(b.state, dims.heads * dims.state_floats());
  take(b.saved, dims.state_floats());
  take(b.delta, kChunk * dims.column_pitch());
  take(b.output, kChunk * kMaxPanel);
  take(b.rows, 4 * b.row_pitch());
  return used;
}

}  // namespace tilegate::cpu_linear
