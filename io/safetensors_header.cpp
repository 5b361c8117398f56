// SPDX-License-Identifier: Apache-2.0
// Validation of a safetensors header. Every number is checked before it is used in arithmetic; the
// byte ranges must tile the data without overlap or hole, as the format demands.
#include "io/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "io/json.h"

namespace tilegate::io {
namespace {

using nlohmann::json;

// root object -> tensor object -> shape array
constexpr int kHeaderDepth = 3;

constexpr std::array<std::pair<DType, std::string_view>, 7> kDtypes = {{
    {DType::kFloat32, "F32"},
    {DType::kFloat16, "F16"},
    {DType::kBFloat16, "BF16"},
    {DType::kInt32, "I32"},
    {DType::kInt64, "I64"},
    {DType::kUInt8, "U8"},
    {DType::kBool, "BOOL"},
}};

template <class... Args>
Status malformed(fmt::format_string<Args...> format, Args&&... args) {
  return Status(StatusCode::kIo, fmt::format(format, std::forward<Args>(args)...));
}

std::optional<std::uint64_t> unsigned_of(const json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  return value.get<std::uint64_t>();
}

Status read_dtype(const json& fields, TensorEntry& entry) {
  const auto found = fields.find("dtype");
  if (found == fields.end() || !found->is_string()) {
    return malformed("tensor {} must have a dtype string", quote_name(entry.name));
  }
  const std::string& name = found->get_ref<const std::string&>();
  for (const auto& [dtype, text] : kDtypes) {
    if (text != name) continue;
    entry.dtype = dtype;
    return Status();
  }
  return malformed("dtype of tensor {} must be F32, F16, BF16, I32, I64, U8 or BOOL, got {}",
                   quote_name(entry.name), quote_name(name));
}

Status read_shape(const json& fields, TensorEntry& entry) {
  const auto found = fields.find("shape");
  if (found == fields.end() || !found->is_array()) {
    return malformed("tensor {} must have a shape array", quote_name(entry.name));
  }
  if (found->empty() || found->size() > static_cast<std::size_t>(kMaxRank)) {
    return malformed("rank of tensor {} must be 1..{}, got {}", quote_name(entry.name), kMaxRank,
                     found->size());
  }
  for (const json& value : *found) {
    const auto dim = unsigned_of(value);
    if (!dim || *dim > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return malformed("shape of tensor {} must hold integers in 0..2^63-1",
                       quote_name(entry.name));
    }
    entry.shape.push_back(static_cast<std::int64_t>(*dim));
  }
  return Status();
}

// Bytes that dtype and shape ask for; nullopt past 2^64.
std::optional<std::uint64_t> bytes_of(const TensorEntry& entry) {
  std::uint64_t bytes = static_cast<std::uint64_t>(size_of(entry.dtype));
  if (std::find(entry.shape.begin(), entry.shape.end(), 0) != entry.shape.end()) return 0;
  for (const std::int64_t dim : entry.shape) {
    const auto factor = static_cast<std::uint64_t>(dim);
    if (factor > std::numeric_limits<std::uint64_t>::max() / bytes) return std::nullopt;
    bytes *= factor;
  }
  return bytes;
}

Status read_offsets(const json& fields, std::uint64_t data_bytes, TensorEntry& entry) {
  const auto found = fields.find("data_offsets");
  if (found == fields.end() || !found->is_array() || found->size() != 2) {
    return malformed("tensor {} must have data_offsets [begin, end]", quote_name(entry.name));
  }
  const auto begin = unsigned_of((*found)[0]);
  const auto end = unsigned_of((*found)[1]);
  if (!begin || !end || *begin > *end) {
    return malformed("data_offsets of tensor {} must be integers with 0 <= begin <= end",
                     quote_name(entry.name));
  }
  if (*end > data_bytes) {
    return malformed("data_offsets of tensor {} must end within the file's {} data bytes, got {}",
                     quote_name(entry.name), data_bytes, *end);
  }
  const auto wanted = bytes_of(entry);
  if (!wanted || *wanted != *end - *begin) {
    return malformed("data_offsets of tensor {} must span the {} bytes of its shape, got {}",
                     quote_name(entry.name), wanted ? fmt::to_string(*wanted) : "2^64 or more",
                     *end - *begin);
  }
  entry.begin = *begin;
  entry.end = *end;
  return Status();
}

Result<TensorEntry> read_entry(const std::string& name, const json& fields,
                               std::uint64_t data_bytes) {
  if (!fields.is_object()) return malformed("tensor {} must be an object", quote_name(name));
  TensorEntry entry;
  entry.name = name;
  for (const auto& [key, value] : fields.items()) {
    if (key != "dtype" && key != "shape" && key != "data_offsets") {
      return malformed("tensor {} must have only dtype, shape and data_offsets, got {}",
                       quote_name(name), quote_name(key));
    }
  }
  if (Status status = read_dtype(fields, entry); !status.ok()) return status;
  if (Status status = read_shape(fields, entry); !status.ok()) return status;
  if (Status status = read_offsets(fields, data_bytes, entry); !status.ok()) return status;
  return entry;
}

Status read_metadata(const json& fields, Header& header) {
  if (!fields.is_object()) return malformed("__metadata__ must be an object");
  for (const auto& [key, value] : fields.items()) {
    if (!value.is_string()) {
      return malformed("__metadata__ must map names to strings, got a {} under {}",
                       value.type_name(), quote_name(key));
    }
    header.metadata.emplace(key, value.get_ref<const std::string&>());
  }
  return Status();
}

Status check_tiling(std::vector<TensorEntry>& tensors, std::uint64_t data_bytes) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t covered = 0;
  const TensorEntry* previous = nullptr;
  for (const TensorEntry& entry : tensors) {
    if (previous != nullptr && entry.begin < covered) {
      return malformed("data_offsets of tensors must not overlap, got {} and {} sharing byte {}",
                       quote_name(previous->name), quote_name(entry.name), entry.begin);
    }
    if (entry.begin > covered) {
      return malformed("every data byte must belong to a tensor, got none for bytes {}..{}",
                       covered, entry.begin);
    }
    covered = entry.end;
    previous = &entry;
  }
  if (covered != data_bytes) {
    return malformed("every data byte must belong to a tensor, got none for bytes {}..{}", covered,
                     data_bytes);
  }
  return Status();
}

}  // namespace

std::string_view file_dtype(DType dtype) {
  for (const auto& [candidate, text] : kDtypes) {
    if (candidate == dtype) return text;
  }
  return "";
}

Result<Header> parse_header(std::string_view text, std::uint64_t data_bytes) {
  Result<json> root = parse_json("header", text, kHeaderDepth);
  if (!root.ok()) return root.status();
  if (!root->is_object()) {
    return malformed("header must be a JSON object, got a {}", root->type_name());
  }
  Header header;
  for (const auto& [name, fields] : root->items()) {
    if (name == "__metadata__") {
      if (Status status = read_metadata(fields, header); !status.ok()) return status;
      continue;
    }
    Result<TensorEntry> entry = read_entry(name, fields, data_bytes);
    if (!entry.ok()) return entry.status();
    header.tensors.push_back(std::move(*entry));
  }
  if (Status status = check_tiling(header.tensors, data_bytes); !status.ok()) return status;
  return header;
}

}  // namespace tilegate::io
