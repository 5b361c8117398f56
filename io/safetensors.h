// SPDX-License-Identifier: Apache-2.0
// safetensors files: 8 bytes of header length (little endian), a JSON header that names every
// tensor with dtype, shape and byte range, then the data. The reader trusts nothing in a file: each
// way to be malformed is an error of one sentence. Tensors of any alignment come out aligned.
// Dtypes: F32 F16 BF16 I32 I64 U8 BOOL, little endian hosts.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "io/host_tensor.h"
#include "tilegate/status.h"
#include "tilegate/tensor.h"

namespace tilegate::io {

struct Safetensors {
  std::map<std::string, std::string, std::less<>> metadata;  // __metadata__
  std::map<std::string, HostTensor, std::less<>> tensors;

  // Null when there is none of that name.
  const HostTensor* find(std::string_view name) const;
};

inline constexpr std::size_t kMaxHeaderBytes = 100'000'000;

// Errors: io (unreadable or malformed; the message starts with the path), out_of_workspace.
Result<Safetensors> read_safetensors(const std::string& path);

// The same from memory; messages do not name a path.
Result<Safetensors> parse_safetensors(std::span<const std::byte> file);

// Writes packed host tensors, wide dtypes first so that all data is aligned in the file.
// Errors: invalid_argument (a view that is not packed, not on the host), io.
Status write_safetensors(const std::string& path,
                         const std::map<std::string, TensorView, std::less<>>& tensors,
                         const std::map<std::string, std::string, std::less<>>& metadata = {});

}  // namespace tilegate::io
