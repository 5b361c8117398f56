// SPDX-License-Identifier: Apache-2.0
// The safetensors reader on any bytes: an error, or tensors that account for every data byte of the
// file and can be read to the last one.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "io/json.h"
#include "io/safetensors.h"

namespace {

void require(bool holds) {
  if (!holds) __builtin_trap();
}

void check_file(const tilegate::io::Safetensors& file, std::size_t data_bytes) {
  std::size_t total = 0;
  unsigned sum = 0;
  for (const auto& [name, tensor] : file.tensors) {
    const tilegate::TensorView& view = tensor.view();
    require(view.rank >= 1 && view.rank <= tilegate::kMaxRank);
    require(tensor.bytes() == 0 ||
            static_cast<std::size_t>(view.numel() * size_of(view.dtype)) == tensor.bytes());
    for (std::size_t i = 0; i < tensor.bytes(); ++i) sum += static_cast<unsigned>(tensor.data()[i]);
    total += tensor.bytes();
    require(!tilegate::io::quote_name(name).empty());
  }
  volatile unsigned keep = sum;
  static_cast<void>(keep);
  require(total == data_bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const auto file = tilegate::io::parse_safetensors(std::as_bytes(std::span(bytes, size)));
  if (!file.ok()) {
    require(!file.status().message().empty());
    require(file.status().message().find('\n') == std::string::npos);
    return 0;
  }
  std::uint64_t header = 0;
  std::memcpy(&header, bytes, sizeof(header));
  check_file(*file, size - sizeof(header) - static_cast<std::size_t>(header));
  return 0;
}
