// SPDX-License-Identifier: Apache-2.0
// prepare: lengths in int32, offsets in elements, page tables of the exact width. One thread an
//   element of an output; bound by launch latency.
// copy: paged keys and values, a request without gaps, zeros up to a tile's end. A block copies 64
//   keys of a request in 16-byte pieces; bound by memory bandwidth.
// finish: rows that see no key get o = 0 and lse = -inf (or the sink alone), cuDNN's natural lse
//   gets the caller's base. One thread a (row, head); touches o only where a row is empty.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>

#include "backend/cudnn/kernels.h"

namespace tilegate::cudnn {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMaxBlocks = 1 << 20;
constexpr std::int64_t kCopyKeys = 64;      // of a block
constexpr std::int64_t kCopyBlocks = 4096;  // of all requests, about
constexpr int kCopyBlocksPerSm = 4;         // leaves 64 registers for loads in flight
constexpr std::int64_t kMaxGridY = 65535;
constexpr std::int64_t kZeroMultiple = 128;  // keys of the largest tile of an engine
constexpr unsigned kPiece = 8;               // elements of 16 bytes
constexpr std::uint16_t kNanBits = 0x7fff;   // in both 16-bit formats

__device__ std::int64_t load(const IndexArray& array, std::int64_t i) {
  if (array.wide) return static_cast<const std::int64_t*>(array.data)[i * array.stride];
  return static_cast<const std::int32_t*>(array.data)[i * array.stride];
}

__device__ std::int64_t first_row(const LengthSource& source, std::int64_t b) {
  return source.rows_each >= 0 ? b * source.rows_each : load(source.qo_indptr, b);
}

// Where a request's rows start in a tensor.
__device__ std::int64_t first_element(const LengthSource& source, const Strides& strides,
                                      std::int64_t b) {
  return source.rows_each >= 0 ? b * strides.batch : load(source.qo_indptr, b) * strides.row;
}

__device__ std::int64_t key_count(const LengthSource& source, std::int64_t b) {
  if (source.keys_each >= 0) return source.keys_each;
  if (source.kv_lens.data != nullptr) return load(source.kv_lens, b);
  const std::int64_t span = load(source.kv_indptr, b + 1) - load(source.kv_indptr, b);
  if (source.page_size == 0 || span <= 0) return span;
  return (span - 1) * source.page_size + load(source.kv_last_page_len, b);
}

// A request past the declared maximum must not lead cuDNN past its page table.
__device__ std::int64_t safe_key_count(const LengthSource& source, std::int64_t b) {
  const std::int64_t keys = key_count(source, b);
  return keys <= source.max_keys ? keys : 0;
}

__device__ void write_offset(std::int64_t* out, std::int64_t b, std::int64_t value) {
  if (out != nullptr) out[b] = value;
}

// First key of a request among all keys: ragged, or where its copy starts.
__device__ std::int64_t first_key(const LengthSource& source, std::int64_t b) {
  if (source.page_size == 0) return load(source.kv_indptr, b);
  if (source.kv_lens.data != nullptr) return b * source.max_keys;
  return load(source.kv_indptr, b) * source.page_size;
}

__device__ std::int64_t page_of(const LengthSource& source, const PageSource& pages, std::int64_t b,
                                std::int64_t ordinal) {
  if (pages.kv_indices.data != nullptr) {
    return load(pages.kv_indices, load(source.kv_indptr, b) + ordinal);
  }
  IndexArray row = pages.block_tables;
  row.data = static_cast<const char*>(row.data) + b * row.row_stride * (row.wide ? 8 : 4);
  return load(row, ordinal);
}

// Entries past a request's pages may be anything in the caller's table. Tiles read them, so they
// become a page of the request again.
__device__ std::int32_t page_entry(const PrepareParams& p, std::int64_t b, std::int64_t column) {
  const std::int64_t keys = safe_key_count(p.lengths, b);
  if (keys <= 0) return 0;
  // 32 bits: a division in 64 is a call that spills.
  const std::int64_t last =
      static_cast<unsigned>(keys - 1) / static_cast<unsigned>(p.lengths.page_size);
  return static_cast<std::int32_t>(page_of(p.lengths, p.pages, b, column < last ? column : last));
}

__device__ void prepare_request(const PrepareParams& p, std::int64_t b) {
  const bool is_end = b == p.lengths.batch;
  if (p.q_offsets != nullptr) {
    write_offset(p.q_offsets, b, first_element(p.lengths, p.q, b));
    write_offset(p.o_offsets, b, first_element(p.lengths, p.o, b));
    write_offset(p.lse_offsets, b, first_element(p.lengths, p.lse, b));
  }
  if (p.k_offsets != nullptr) {
    const std::int64_t key = first_key(p.lengths, b);
    write_offset(p.k_offsets, b, key * p.k_row);
    write_offset(p.v_offsets, b, key * p.v_row);
  }
  if (is_end || p.q_lens == nullptr) return;
  const std::int64_t rows = first_row(p.lengths, b + 1) - first_row(p.lengths, b);
  p.q_lens[b] = rows <= p.lengths.max_rows ? static_cast<std::int32_t>(rows) : 0;
  p.kv_lens[b] = static_cast<std::int32_t>(safe_key_count(p.lengths, b));
}

// Grid: x are columns of the page table (and, in the first y, requests and heads), y its rows.
__global__ void __launch_bounds__(kThreads) prepare_kernel(const PrepareParams p) {
  const std::int64_t first = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  if (blockIdx.y == 0) {
#pragma unroll 1
    for (std::int64_t b = first; b <= p.lengths.batch; b += step) prepare_request(p, b);
#pragma unroll 1
    for (std::int64_t h = first; p.sinks_out != nullptr && h < p.heads_q; h += step) {
      p.sinks_out[h] = p.sinks_in[h * p.sink_stride];
    }
  }
  for (std::int64_t b = blockIdx.y; b < p.lengths.batch; b += gridDim.y) {
#pragma unroll 1
    for (std::int64_t column = first; column < p.table_width; column += step) {
      p.page_table[b * p.table_width + column] = page_entry(p, b, column);
    }
  }
}

// Keys of a request that its copy has room for.
__device__ std::int64_t key_room(const LengthSource& source, std::int64_t b) {
  if (source.kv_lens.data != nullptr) return source.max_keys;
  return (load(source.kv_indptr, b + 1) - load(source.kv_indptr, b)) * source.page_size;
}

// Keys [begin, end) of a request's copy. Numbers within a request fit 32 bits; unrolled so that
// several 16-byte loads are in flight.
__device__ void copy_keys(const CopyParams& p, const CopyTensor& tensor, std::int64_t b, int begin,
                          int end) {
  const auto keys = static_cast<unsigned>(safe_key_count(p.lengths, b));
  const auto heads = static_cast<unsigned>(p.heads);
  const auto page_size = static_cast<unsigned>(p.lengths.page_size);
  const unsigned pieces = static_cast<unsigned>(tensor.dim) / kPiece;
  const unsigned row_pieces = heads * pieces;
  const unsigned count = static_cast<unsigned>(end - begin) * row_pieces;
  uint4* to = reinterpret_cast<uint4*>(tensor.to) + (first_key(p.lengths, b) + begin) * row_pieces;
#pragma unroll 4
  for (unsigned i = threadIdx.x; i < count; i += kThreads) {
    const unsigned key = static_cast<unsigned>(begin) + i / row_pieces;
    uint4 value = {0, 0, 0, 0};
    if (key < keys) {
      const std::int64_t page = page_of(p.lengths, p.pages, b, key / page_size);
      const std::uint16_t* from = tensor.from + page * tensor.page + key % page_size * tensor.slot +
                                  i / pieces % heads * tensor.head + i % pieces * kPiece;
      value = __ldcs(reinterpret_cast<const uint4*>(from));
    }
    to[i] = value;
  }
}

// Grid: x are blocks of a request, y requests, z is k or v.
__global__ void __launch_bounds__(kThreads, kCopyBlocksPerSm) copy_kernel(const CopyParams p) {
  for (std::int64_t b = blockIdx.y; b < p.lengths.batch; b += gridDim.y) {
    const std::int64_t keys = safe_key_count(p.lengths, b);
    const std::int64_t room = key_room(p.lengths, b);
    const std::int64_t padded = (keys + kZeroMultiple - 1) / kZeroMultiple * kZeroMultiple;
    const std::int64_t count = padded < room ? padded : room;
    for (std::int64_t begin = blockIdx.x * kCopyKeys; begin < count;
         begin += gridDim.x * kCopyKeys) {
      const std::int64_t end = begin + kCopyKeys < count ? begin + kCopyKeys : count;
      copy_keys(p, p.tensors[blockIdx.z], b, static_cast<int>(begin), static_cast<int>(end));
    }
  }
}

struct RowPlace {
  std::int64_t request = -1;  // -1: past the last offset
  std::int64_t row = 0;       // of the request
  std::int64_t rows = 0;      // the request has
};

__device__ RowPlace place_of(const LengthSource& source, std::int64_t row) {
  if (source.rows_each >= 0) {
    return {row / source.rows_each, row % source.rows_each, source.rows_each};
  }
  if (row >= load(source.qo_indptr, source.batch)) return {};
  std::int64_t low = 0;
  std::int64_t high = source.batch;  // indptr[low] <= row < indptr[high]
  while (high - low > 1) {
    const std::int64_t middle = (low + high) / 2;
    (load(source.qo_indptr, middle) <= row ? low : high) = middle;
  }
  const std::int64_t begin = load(source.qo_indptr, low);
  return {low, row - begin, load(source.qo_indptr, low + 1) - begin};
}

__device__ bool sees_no_key(const FinishParams& p, const RowPlace& place, std::int64_t keys) {
  const std::int64_t diagonal = place.row + keys - place.rows;
  std::int64_t begin = 0;
  std::int64_t end = keys;
  // Both may be as large as the type: compare before adding.
  if (p.left >= 0 && p.left < diagonal) begin = diagonal - p.left;
  if (p.right >= 0 && p.right < keys - diagonal) end = diagonal + p.right + 1;
  return end <= begin;
}

__device__ void fill_output(const FinishParams& p, const RowPlace& place, std::int64_t row,
                            std::int64_t head, std::uint16_t bits) {
  const bool equal = p.lengths.rows_each >= 0;
  std::uint16_t* out = p.o + head * p.o_strides.head;
  out += equal ? place.request * p.o_strides.batch + place.row * p.o_strides.row
               : row * p.o_strides.row;
  for (std::int64_t d = 0; d < p.dim_v; ++d) out[d] = bits;
}

__global__ void __launch_bounds__(kThreads) finish_kernel(const FinishParams p) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  const std::int64_t count = p.total_rows * p.heads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step) {
    const std::int64_t row = i / p.heads;
    const std::int64_t head = i % p.heads;
    const RowPlace place = place_of(p.lengths, row);
    if (place.request < 0) continue;
    const std::int64_t keys = key_count(p.lengths, place.request);
    const bool too_long = keys > p.lengths.max_keys || place.rows > p.lengths.max_rows;
    const bool empty = !too_long && sees_no_key(p, place, keys);
    if (too_long || empty) fill_output(p, place, row, head, too_long ? kNanBits : 0);
    if (p.lse == nullptr) continue;
    float* lse = p.lse + head * p.lse_strides.head;
    lse += p.lengths.rows_each >= 0
               ? place.request * p.lse_strides.batch + place.row * p.lse_strides.row
               : row * p.lse_strides.row;
    float value = *lse;
    if (empty) value = p.sinks != nullptr ? p.sinks[head * p.sink_stride] : -INFINITY;
    if (too_long) value = NAN;
    *lse = value * p.lse_scale;
  }
}

unsigned blocks_for(std::int64_t threads) {
  return static_cast<unsigned>(
      std::clamp<std::int64_t>((threads + kThreads - 1) / kThreads, 1, kMaxBlocks));
}

}  // namespace

cudaError_t launch_prepare(const PrepareParams& params, cudaStream_t stream) {
  const std::int64_t threads =
      std::max({params.lengths.batch + 1, params.table_width, params.heads_q});
  const std::int64_t rows = params.table_width > 0 ? std::min(params.lengths.batch, kMaxGridY) : 1;
  const dim3 grid(blocks_for(threads), static_cast<unsigned>(rows));
  prepare_kernel<<<grid, kThreads, 0, stream>>>(params);
  return cudaGetLastError();
}

cudaError_t launch_copy(const CopyParams& params, cudaStream_t stream) {
  const std::int64_t chunks = (params.lengths.max_keys + kCopyKeys - 1) / kCopyKeys;
  const std::int64_t batch = params.lengths.batch;
  const dim3 grid(static_cast<unsigned>(std::min(chunks, kCopyBlocks / batch + 1)),
                  static_cast<unsigned>(std::min(batch, kMaxGridY)), 2);
  copy_kernel<<<grid, kThreads, 0, stream>>>(params);
  return cudaGetLastError();
}

cudaError_t launch_finish(const FinishParams& params, cudaStream_t stream) {
  const std::int64_t threads = params.total_rows * params.heads;
  finish_kernel<<<blocks_for(threads), kThreads, 0, stream>>>(params);
  return cudaGetLastError();
}

}  // namespace tilegate::cudnn
