// SPDX-License-Identifier: Apache-2.0
// Scatters new K and V rows into their pages: token t goes to position positions[t] of request
// batch_indices[t]. A thread copies chunks (Words), several at a time: their loads and those of
// their tokens' positions are in flight together, then those of the pages, then the stores. Bound
// by copying: every byte is read and written once.
#pragma once

#include "kernel/attention/append_params.h"
#include "kernel/attention/page_table.cuh"
#include "kernel/pipe/row_items.cuh"

namespace tilegate::kernel {

// A chunk on its way from its token to its page.
template <class Word>
struct AppendChunk {
  Word word;
  int position = -1;  // < 0: goes nowhere
  int request = 0;

  __device__ __forceinline__ void load(const AppendParams& p, const AppendSide& side,
                                       const pipe::RowItem& item) {
    if (!item.valid) return;
    word = __ldg(reinterpret_cast<const Word*>(side.tokens + item.row * side.token +
                                               item.head * side.token_head + column(item)));
    position = load_index(p.positions, item.row);
    if (p.batch_indices.data != nullptr) request = load_index(p.batch_indices, item.row);
  }

  // Where the chunk goes; null for a skipped one.
  __device__ __forceinline__ Word* place(const AppendParams& p, const AppendSide& side,
                                         const pipe::RowItem& item) const {
    if (position < 0) return nullptr;
    const KeyPlace key = place_of(p.table, position);
    const int page = page_at(p.table, first_page(p.table, request), key.ordinal);
    return reinterpret_cast<Word*>(side.cache + page * side.page + key.slot * side.slot +
                                   item.head * side.cache_head + column(item));
  }

  static __device__ __forceinline__ std::int64_t column(const pipe::RowItem& item) {
    return item.chunk * static_cast<std::int64_t>(sizeof(Word));
  }
};

// Blocks of z = 0 copy keys, of z = 1 values.
template <class Word, int kTogether>
__global__ void __launch_bounds__(256) append_kernel(const __grid_constant__ AppendParams p) {
  const AppendSide& side = p.sides[blockIdx.z];
  const pipe::RowItems items{p.tokens, p.rows_per_block, p.heads, side.chunks};
  pipe::for_each_batch<kTogether>(items, [&](const pipe::RowItem(&batch)[kTogether]) {
    AppendChunk<Word> chunk[kTogether];
    Word* place[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) chunk[i].load(p, side, batch[i]);
#pragma unroll
    for (int i = 0; i < kTogether; ++i) place[i] = chunk[i].place(p, side, batch[i]);
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      if (place[i] != nullptr) *place[i] = chunk[i].word;
    }
  });
}

}  // namespace tilegate::kernel
