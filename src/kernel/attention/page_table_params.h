// SPDX-License-Identifier: Apache-2.0
// Page tables as kernels receive them: CSR or dense, int32 or int64, any stride. Host-safe.
//
// Kernels read only the lower 32 bits of an entry: lengths and page numbers stay below 2^31, since
// that many pages of even one key do not fit on a device. So both widths are one load, and only the
// step tells them apart. Offsets made from entries are 64-bit.
#pragma once

#include <cstdint>

#include "kernel/tile/element_params.h"

namespace tilegate::kernel {

using tile::IndexArray;

// Keys of request b: lengths[b] (dense), or from indptr and last_page_len (CSR). Its n-th page is
// entry n of row b (dense) or entry indptr[b] + n (CSR) of pages.
struct PageTableParams {
  IndexArray pages;            // block_tables or kv_indices; stride along a request's pages
  std::int64_t row_bytes = 0;  // dense: between requests
  IndexArray lengths;          // dense: kv_lens [batch]; absent: CSR
  IndexArray indptr;           // CSR: [batch + 1]
  IndexArray last_page_len;    // CSR: [batch]
  int width = 0;               // dense: entries of a row
  int page_size = 1;
  int page_shift = -1;  // log2(page_size) when that is whole, else -1
};

}  // namespace tilegate::kernel
