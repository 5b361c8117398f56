// SPDX-License-Identifier: Apache-2.0
// The header of a safetensors file as data, checked against the size of the file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tilegate/status.h"
#include "tilegate/tensor.h"

namespace tilegate::io {

struct TensorEntry {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;  // 1..kMaxRank dimensions
  std::uint64_t begin = 0;          // bytes into the data, [begin, end)
  std::uint64_t end = 0;
};

struct Header {
  std::map<std::string, std::string, std::less<>> metadata;
  std::vector<TensorEntry> tensors;  // ranges tile the data in this order
};

// Names of dtypes in files: "BF16".
std::string_view file_dtype(DType dtype);

// `text` is the JSON, `data_bytes` what follows it in the file. Errors: io.
Result<Header> parse_header(std::string_view text, std::uint64_t data_bytes);

}  // namespace tilegate::io
