// SPDX-License-Identifier: Apache-2.0
// An empty sequence hands on its initial state, or +0 where it starts from zero by selection.
#include "cli/check/unchanged.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "cli/case/outputs.h"

namespace tilegate::cli {
namespace {

// Bytes of one leading row.
std::size_t row_bytes(const io::HostTensor& tensor) {
  const std::int64_t rows = tensor.view().shape[0];
  return rows > 0 ? tensor.bytes() / static_cast<std::size_t>(rows) : 0;
}

bool same_rows(const io::HostTensor& a, std::int64_t row_a, const io::HostTensor& b,
               std::int64_t row_b) {
  const std::size_t bytes = row_bytes(a);
  return std::memcmp(a.data() + static_cast<std::size_t>(row_a) * bytes,
                     b.data() + static_cast<std::size_t>(row_b) * bytes, bytes) == 0;
}

bool is_zero(const io::HostTensor& tensor, std::int64_t row) {
  const std::size_t bytes = row_bytes(tensor);
  const std::byte* begin = tensor.data() + static_cast<std::size_t>(row) * bytes;
  return std::all_of(begin, begin + bytes, [](std::byte b) { return b == std::byte{0}; });
}

bool starts_from_zero(const Case& c, std::int64_t sequence) {
  const TensorView flags = c.input("has_initial_state");
  return flags.present() && static_cast<const std::uint8_t*>(flags.data)[sequence] == 0;
}

std::string changed_pool_row(const Case& c, const io::HostTensor& after) {
  const io::HostTensor& before = c.inputs.find("state_pool")->second;
  const TensorView slots = c.input("state_indices");
  const std::int64_t rows = before.view().shape[0];
  std::vector<bool> written(static_cast<std::size_t>(rows), false);
  for (std::int64_t i = 0; i < num_sequences(c); ++i) {
    const std::int64_t slot = index_at(slots, i);
    if (slot < 0) continue;
    const bool empty = sequence_length(c, i) == 0;
    if (!empty || starts_from_zero(c, i)) written[static_cast<std::size_t>(slot)] = true;
    if (empty && starts_from_zero(c, i) && !is_zero(after, slot)) {
      return fmt::format("row {} of empty sequence {} is not zero", slot, i);
    }
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    if (!written[static_cast<std::size_t>(row)] && !same_rows(before, row, after, row)) {
      return fmt::format("row {} must be unchanged and is not", row);
    }
  }
  return "";
}

std::string changed_final_state(const Case& c, const io::HostTensor& after) {
  const auto initial = c.inputs.find("initial_state");
  for (std::int64_t i = 0; i < num_sequences(c); ++i) {
    if (sequence_length(c, i) != 0) continue;
    const bool zero = initial == c.inputs.end() || starts_from_zero(c, i);
    if (zero ? !is_zero(after, i) : !same_rows(initial->second, i, after, i)) {
      return fmt::format("state of empty sequence {} is not its initial state", i);
    }
  }
  return "";
}

}  // namespace

std::string find_changed_state(const Case& c, const Tensors& results) {
  if (const auto pool = results.find("state_pool"); pool != results.end()) {
    const std::string changed = changed_pool_row(c, pool->second);
    return changed.empty() ? "" : "state_pool " + changed;
  }
  if (const auto state = results.find("final_state"); state != results.end()) {
    const std::string changed = changed_final_state(c, state->second);
    return changed.empty() ? "" : "final_state " + changed;
  }
  return "";
}

}  // namespace tilegate::cli
