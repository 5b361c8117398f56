// SPDX-License-Identifier: Apache-2.0
// Scatters new K and V rows into their pages: token t goes to position positions[t] of request
// batch_indices[t]. A thread copies one chunk (Word) at a time; the token is loaded before its
// place is looked up, so the two latencies overlap. Bound by copying: every byte is read and
// written once.
#pragma once

#include "kernel/attention/append_params.h"
#include "kernel/attention/page_table.cuh"
#include "kernel/pipe/row_items.cuh"

namespace tilegate::kernel {

template <class Word>
__global__ void __launch_bounds__(256) append_kernel(const __grid_constant__ AppendParams p) {
  const AppendSide& side = p.sides[blockIdx.y];
  const pipe::RowItems items{p.tokens, p.rows_per_block, p.heads, side.chunks};
  pipe::for_each_item(items, [&](std::int64_t token, int head, int chunk) {
    const std::int64_t column = chunk * static_cast<std::int64_t>(sizeof(Word));
    const Word word = __ldg(reinterpret_cast<const Word*>(side.tokens + token * side.token +
                                                          head * side.token_head + column));
    const int position = load_index(p.positions, token);
    if (position < 0) return;
    int request = 0;
    if (p.batch_indices.data != nullptr) request = load_index(p.batch_indices, token);
    const KeyPlace place = place_of(p.table, position);
    const int page = page_at(p.table, first_page(p.table, request), place.ordinal);
    *reinterpret_cast<Word*>(side.cache + page * side.page + place.slot * side.slot +
                             head * side.cache_head + column) = word;
  });
}

}  // namespace tilegate::kernel
