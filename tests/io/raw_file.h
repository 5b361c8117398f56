// SPDX-License-Identifier: Apache-2.0
// Bytes of a safetensors file put together by hand, so that any part of it can be wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace tilegate::io::testing {

struct RawFile {
  std::string header;
  std::string data;
  std::int64_t length = -1;  // what the first 8 bytes claim; -1: the header's length

  std::string bytes() const {
    const std::uint64_t claimed =
        length >= 0 ? static_cast<std::uint64_t>(length) : std::uint64_t{header.size()};
    std::string file(sizeof(claimed), '\0');
    std::memcpy(file.data(), &claimed, sizeof(claimed));
    return file + header + data;
  }
};

// {"a": {..}} with one tensor.
inline std::string one_tensor(std::string_view dtype, std::string_view shape,
                              std::string_view offsets) {
  return std::string("{\"a\":{\"dtype\":\"") + std::string(dtype) +
         "\",\"shape\":" + std::string(shape) + ",\"data_offsets\":" + std::string(offsets) + "}}";
}

inline std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace tilegate::io::testing
