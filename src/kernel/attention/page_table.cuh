// SPDX-License-Identifier: Apache-2.0
// Reading page tables on the device.
#pragma once

#include "kernel/attention/page_table_params.h"

namespace tilegate::kernel {

// Address of the entry `i` steps after `first`: its lower half, whatever its width.
__device__ __forceinline__ const int* entry_at(const void* first, const IndexArray& array,
                                               std::int64_t i) {
  return reinterpret_cast<const int*>(static_cast<const char*>(first) + i * array.step);
}

__device__ __forceinline__ int load_index(const IndexArray& array, std::int64_t i) {
  return __ldg(entry_at(array.data, array, i));
}

// Keys of request b; a CSR request without pages has none.
__device__ __forceinline__ int request_length(const PageTableParams& table, int b) {
  if (table.lengths.data != nullptr) return load_index(table.lengths, b);
  const int begin = load_index(table.indptr, b);
  const int end = load_index(table.indptr, b + 1);
  const int last = load_index(table.last_page_len, b);
  return end > begin ? (end - begin - 1) * table.page_size + last : 0;
}

// Where the pages of request b begin, for page_at.
__device__ __forceinline__ const int* first_page(const PageTableParams& table, int b) {
  if (table.lengths.data != nullptr) {
    const char* rows = static_cast<const char*>(table.pages.data);
    return reinterpret_cast<const int*>(rows + b * table.row_bytes);
  }
  return entry_at(table.pages.data, table.pages, load_index(table.indptr, b));
}

__device__ __forceinline__ int page_at(const PageTableParams& table, const int* first,
                                       int ordinal) {
  return __ldg(entry_at(first, table.pages, ordinal));
}

// Where a key lies: ordinal of its page in the request, and slot in the page.
struct KeyPlace {
  int ordinal;
  int slot;
};

__device__ __forceinline__ KeyPlace place_of(const PageTableParams& table, int key) {
  if (table.page_shift >= 0) return {key >> table.page_shift, key & (table.page_size - 1)};
  const int ordinal = key / table.page_size;
  return {ordinal, key - ordinal * table.page_size};
}

}  // namespace tilegate::kernel
