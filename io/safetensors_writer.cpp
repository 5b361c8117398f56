// SPDX-License-Identifier: Apache-2.0
// Writing: the header is padded with spaces to 8 bytes and tensors are ordered by falling element
// size, so every tensor of a mapped file is aligned to its dtype.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <span>
#include <utility>
#include <vector>

#include "io/json.h"
#include "io/safetensors.h"
#include "io/safetensors_header.h"

namespace tilegate::io {
namespace {

using Named = std::pair<std::string, TensorView>;

Status check_packed(const Named& tensor) {
  const TensorView& view = tensor.second;
  if (view.rank < 1 || view.device.type != DeviceType::kCpu) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("tensor {} must be in host memory", quote_name(tensor.first)));
  }
  const auto dims = std::span(view.shape).first(static_cast<std::size_t>(view.rank));
  if (std::ranges::find(dims, 0) != dims.end()) return Status();  // no entry, so no gap
  std::int64_t stride = 1;
  for (int i = view.rank - 1; i >= 0; --i) {
    if (view.shape[i] > 1 && view.strides[i] != stride) {
      return Status(StatusCode::kInvalidArgument,
                    fmt::format("tensor {} must be packed, got stride {} in dimension {}",
                                quote_name(tensor.first), view.strides[i], i));
    }
    stride *= view.shape[i];
  }
  return Status();
}

std::string header_text(const std::vector<Named>& tensors,
                        const std::map<std::string, std::string, std::less<>>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::int64_t offset = 0;
  for (const auto& [name, view] : tensors) {
    const std::int64_t bytes = view.numel() * size_of(view.dtype);
    header[name] = {{"dtype", file_dtype(view.dtype)},
                    {"shape", std::vector(view.shape.begin(), view.shape.begin() + view.rank)},
                    {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text =
      header.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

Status write_safetensors(const std::string& path,
                         const std::map<std::string, TensorView, std::less<>>& tensors,
                         const std::map<std::string, std::string, std::less<>>& metadata) {
  std::vector<Named> ordered(tensors.begin(), tensors.end());
  for (const Named& tensor : ordered) {
    if (Status status = check_packed(tensor); !status.ok()) return status;
  }
  std::stable_sort(ordered.begin(), ordered.end(), [](const Named& a, const Named& b) {
    return size_of(a.second.dtype) > size_of(b.second.dtype);
  });
  const std::string header = header_text(ordered, metadata);
  const std::uint64_t length = header.size();
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream.write(reinterpret_cast<const char*>(&length), sizeof(length));
  stream.write(header.data(), static_cast<std::streamsize>(header.size()));
  for (const auto& [name, view] : ordered) {
    stream.write(static_cast<const char*>(view.data),
                 static_cast<std::streamsize>(view.numel() * size_of(view.dtype)));
  }
  stream.close();
  if (stream.fail()) {
    return Status(StatusCode::kIo,
                  fmt::format("{}: cannot be written: {}", path, std::strerror(errno)));
  }
  return Status();
}

}  // namespace tilegate::io
