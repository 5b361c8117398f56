// SPDX-License-Identifier: Apache-2.0
// Reading: the length of the header, the header, then each tensor straight into its own aligned
// memory, so a file is held once. Reads instead of mapping: a file that shrinks while it is read is
// then an error and not a signal.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <string>

#include "io/safetensors.h"
#include "io/safetensors_header.h"

namespace tilegate::io {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little endian");

constexpr std::size_t kLengthBytes = 8;

// Where the bytes of a file come from.
class Source {
 public:
  virtual ~Source() = default;
  virtual std::uint64_t size() const = 0;
  // The next bytes, in order. False when they cannot be had.
  virtual bool read(void* to, std::size_t bytes) = 0;
};

class MemorySource : public Source {
 public:
  explicit MemorySource(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::uint64_t size() const override { return bytes_.size(); }
  bool read(void* to, std::size_t bytes) override {
    if (bytes > bytes_.size() - offset_) return false;
    if (bytes > 0) std::memcpy(to, bytes_.data() + offset_, bytes);
    offset_ += bytes;
    return true;
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t offset_ = 0;
};

class FileSource : public Source {
 public:
  FileSource(const std::string& path, std::uint64_t size)
      : stream_(path, std::ios::binary), size_(size) {}
  bool opened() const { return stream_.is_open(); }
  std::uint64_t size() const override { return size_; }
  bool read(void* to, std::size_t bytes) override {
    stream_.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes));
    return static_cast<std::size_t>(stream_.gcount()) == bytes;
  }

 private:
  std::ifstream stream_;
  std::uint64_t size_;
};

Status cut_short() { return Status(StatusCode::kIo, "the file ended while it was read"); }

Result<Header> read_header(Source& source) {
  if (source.size() < kLengthBytes) {
    return Status(StatusCode::kIo,
                  fmt::format("a safetensors file must have at least {} bytes, got {}",
                              kLengthBytes, source.size()));
  }
  std::uint64_t length = 0;
  if (!source.read(&length, kLengthBytes)) return cut_short();
  if (length > kMaxHeaderBytes) {
    return Status(StatusCode::kIo, fmt::format("header must have at most {} bytes, got {}",
                                               kMaxHeaderBytes, length));
  }
  if (length > source.size() - kLengthBytes) {
    return Status(StatusCode::kIo,
                  fmt::format("header must fit in the file, got a header of {} bytes with {} left",
                              length, source.size() - kLengthBytes));
  }
  std::string text(static_cast<std::size_t>(length), ' ');
  if (!source.read(text.data(), text.size())) return cut_short();
  return parse_header(text, source.size() - kLengthBytes - length);
}

Result<Safetensors> read_all(Source& source) {
  Result<Header> header = read_header(source);
  if (!header.ok()) return header.status();
  Safetensors file;
  file.metadata = std::move(header->metadata);
  for (const TensorEntry& entry : header->tensors) {  // in file order, without holes
    Result<HostTensor> tensor = HostTensor::allocate(entry.dtype, entry.shape);
    if (!tensor.ok()) return tensor.status();
    if (!source.read(tensor->data(), tensor->bytes())) return cut_short();
    file.tensors.emplace(entry.name, std::move(*tensor));
  }
  return file;
}

// Containers of a hostile header may ask for more than there is.
Result<Safetensors> read_guarded(Source& source) {
  try {
    return read_all(source);
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kOutOfWorkspace, "no memory for the file's header");
  }
}

Status at_path(const std::string& path, const Status& status) {
  return Status(status.code(), fmt::format("{}: {}", path, status.message()));
}

}  // namespace

const HostTensor* Safetensors::find(std::string_view name) const {
  const auto found = tensors.find(name);
  return found == tensors.end() ? nullptr : &found->second;
}

Result<Safetensors> parse_safetensors(std::span<const std::byte> file) {
  MemorySource source(file);
  return read_guarded(source);
}

Result<Safetensors> read_safetensors(const std::string& path) {
  std::error_code error;
  const auto kind = std::filesystem::status(path, error).type();
  if (kind == std::filesystem::file_type::not_found) {
    return at_path(path, Status(StatusCode::kIo, "no such file"));
  }
  if (kind != std::filesystem::file_type::regular) {
    return at_path(path, Status(StatusCode::kIo, "must be a regular file"));
  }
  const std::uint64_t size = std::filesystem::file_size(path, error);
  if (error) return at_path(path, Status(StatusCode::kIo, error.message()));
  FileSource source(path, size);
  if (!source.opened()) {
    return at_path(
        path, Status(StatusCode::kIo, fmt::format("cannot be opened: {}", std::strerror(errno))));
  }
  Result<Safetensors> file = read_guarded(source);
  if (!file.ok()) return at_path(path, file.status());
  return file;
}

}  // namespace tilegate::io
