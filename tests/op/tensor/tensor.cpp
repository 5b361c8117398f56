// SPDX-License-Identifier: Apache-2.0
// Tensor and Block. Offsets are 64-bit elements; a block of a sparse tensor may be many gigabytes.
#include "tests/op/tensor/tensor.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tests/op/tensor/small_floats.h"

namespace laws {

using tilegate::DType;

namespace {

constexpr std::size_t kAlignment = 64;

std::size_t rounded_up(std::size_t bytes) { return (bytes / kAlignment + 1) * kAlignment; }

}  // namespace

Block::Block(std::size_t size) : bytes(rounded_up(size)) {
  host = static_cast<std::byte*>(std::aligned_alloc(kAlignment, bytes));
  std::memset(host, 0xff, bytes);
}

std::shared_ptr<Block> Block::sparse(std::size_t size) {
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  std::shared_ptr<Block> block(new Block());
  block->host = static_cast<std::byte*>(data);
  block->bytes = size;
  block->is_sparse = true;
  return block;
}

Block::~Block() {
  if (memory != nullptr && device_data != nullptr) memory->release(device_data);
  if (is_sparse) {
    munmap(host, bytes);
  } else {
    std::free(host);
  }
}

Dims packed_strides(const Dims& shape) {
  Dims strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<std::int64_t>(shape[i], 1);
  }
  return strides;
}

std::string to_string(const Dims& dims) {
  std::string text = "[";
  for (std::size_t i = 0; i < dims.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(dims[i]);
  }
  return text + "]";
}

Tensor Tensor::packed(DType dtype, Dims shape) {
  Dims strides = packed_strides(shape);
  return strided(dtype, std::move(shape), std::move(strides));
}

Tensor Tensor::strided(DType dtype, Dims shape, Dims strides) {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] > 1) last += (shape[i] - 1) * strides[i];
  }
  const auto bytes = static_cast<std::size_t>((last + 1) * tilegate::size_of(dtype));
  return in_block(std::make_shared<Block>(bytes), dtype, std::move(shape), std::move(strides));
}

Tensor Tensor::in_block(std::shared_ptr<Block> block, DType dtype, Dims shape, Dims strides) {
  Tensor tensor;
  tensor.block_ = std::move(block);
  tensor.dtype_ = dtype;
  tensor.shape_ = std::move(shape);
  tensor.strides_ = std::move(strides);
  return tensor;
}

Tensor Tensor::indices(const std::vector<std::int64_t>& values, DType dtype) {
  Tensor tensor = packed(dtype, {static_cast<std::int64_t>(values.size())});
  for (std::size_t i = 0; i < values.size(); ++i) {
    tensor.set_flat(static_cast<std::int64_t>(i), static_cast<double>(values[i]));
  }
  return tensor;
}

Tensor Tensor::bytes(const std::vector<std::uint8_t>& values, DType dtype) {
  Tensor tensor = packed(dtype, {static_cast<std::int64_t>(values.size())});
  for (std::size_t i = 0; i < values.size(); ++i) {
    tensor.set_flat(static_cast<std::int64_t>(i), values[i]);
  }
  return tensor;
}

std::int64_t Tensor::numel() const {
  std::int64_t n = 1;
  for (std::int64_t d : shape_) n *= d;
  return present() ? n : 0;
}

tilegate::TensorView Tensor::view() const {
  tilegate::TensorView view;
  if (!present()) return view;
  auto* base =
      static_cast<std::byte*>(block_->device_data != nullptr ? block_->device_data : block_->host);
  view.data = base + start_ * tilegate::size_of(dtype_);
  view.dtype = dtype_;
  if (block_->memory != nullptr) view.device = block_->memory->device();
  view.rank = static_cast<int>(shape_.size());
  std::copy(shape_.begin(), shape_.end(), view.shape.begin());
  std::copy(strides_.begin(), strides_.end(), view.strides.begin());
  return view;
}

std::byte* Tensor::element(std::int64_t offset) const {
  return block_->host + (start_ + offset) * tilegate::size_of(dtype_);
}

std::int64_t Tensor::offset(std::initializer_list<std::int64_t> index) const {
  std::int64_t offset = 0;
  std::size_t d = 0;
  for (std::int64_t i : index) offset += i * strides_.at(d++);
  return offset;
}

std::int64_t Tensor::offset_of(std::int64_t flat_index) const {
  std::int64_t offset = 0;
  for (std::size_t d = shape_.size(); d-- > 0;) {
    offset += flat_index % shape_[d] * strides_[d];
    flat_index /= shape_[d];
  }
  return offset;
}

std::uint64_t Tensor::bits(std::int64_t i) const {
  std::uint64_t value = 0;
  std::memcpy(&value, element(offset_of(i)), static_cast<std::size_t>(tilegate::size_of(dtype_)));
  return value;
}

template <class T>
static T read(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

template <class T>
static void write(std::byte* data, T value) {
  std::memcpy(data, &value, sizeof value);
}

double Tensor::load(std::int64_t offset) const {
  const std::byte* data = element(offset);
  switch (dtype_) {
    case DType::kFloat32:
      return read<float>(data);
    case DType::kFloat16:
      return half_to_double(read<std::uint16_t>(data));
    case DType::kBFloat16:
      return bfloat16_to_double(read<std::uint16_t>(data));
    case DType::kInt32:
      return read<std::int32_t>(data);
    case DType::kInt64:
      return static_cast<double>(read<std::int64_t>(data));
    case DType::kUInt8:
    case DType::kBool:
      return read<std::uint8_t>(data);
  }
  return 0.0;
}

void Tensor::store(std::int64_t offset, double value) {
  std::byte* data = element(offset);
  switch (dtype_) {
    case DType::kFloat32:
      return write(data, static_cast<float>(value));
    case DType::kFloat16:
      return write(data, double_to_half(value));
    case DType::kBFloat16:
      return write(data, double_to_bfloat16(value));
    case DType::kInt32:
      return write(data, static_cast<std::int32_t>(value));
    case DType::kInt64:
      return write(data, static_cast<std::int64_t>(value));
    case DType::kUInt8:
    case DType::kBool:
      return write(data, static_cast<std::uint8_t>(value));
  }
}

Tensor Tensor::slice(int dim, std::int64_t begin, std::int64_t end) const {
  Tensor part = *this;
  const auto d = static_cast<std::size_t>(dim);
  part.start_ += begin * strides_.at(d);
  part.shape_.at(d) = end - begin;
  return part;
}

Tensor Tensor::select(int dim, std::int64_t index) const {
  Tensor part = slice(dim, index, index + 1);
  part.shape_.erase(part.shape_.begin() + dim);
  part.strides_.erase(part.strides_.begin() + dim);
  return part;
}

Tensor Tensor::reshaped(Dims shape, Dims strides) const {
  Tensor part = *this;
  part.shape_ = std::move(shape);
  part.strides_ = std::move(strides);
  return part;
}

Tensor Tensor::permuted(const std::vector<int>& order) const {
  Tensor part = *this;
  for (std::size_t i = 0; i < order.size(); ++i) {
    part.shape_[i] = dim(order[i]);
    part.strides_[i] = strides_.at(static_cast<std::size_t>(order[i]));
  }
  return part;
}

Tensor Tensor::clone() const { return with_strides(packed_strides(shape_)); }

Tensor Tensor::with_strides(Dims strides) const {
  if (!present()) return {};
  Tensor copy = strided(dtype_, shape_, std::move(strides));
  copy.copy_from(*this);
  return copy;
}

Tensor Tensor::as(DType dtype) const {
  if (!present()) return {};
  Tensor copy = packed(dtype, shape_);
  for (std::int64_t i = 0; i < numel(); ++i) copy.set_flat(i, flat(i));
  return copy;
}

Tensor& Tensor::fill(double value) {
  for (std::int64_t i = 0; i < numel(); ++i) set_flat(i, value);
  return *this;
}

Tensor& Tensor::assign(const std::vector<double>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    set_flat(static_cast<std::int64_t>(i), values[i]);
  }
  return *this;
}

Tensor& Tensor::poison() {
  const auto size = static_cast<std::size_t>(tilegate::size_of(dtype_));
  for (std::int64_t i = 0; i < numel(); ++i) std::memset(element(offset_of(i)), 0xff, size);
  return *this;
}

void Tensor::mark(std::vector<std::uint8_t>& covered) const {
  covered.resize(block_->bytes);
  const std::int64_t size = tilegate::size_of(dtype_);
  // Whole rows at once where the innermost elements are neighbours.
  const bool rows = !shape_.empty() && shape_.back() > 0 && strides_.back() == 1;
  const std::int64_t run = rows ? shape_.back() : 1;
  for (std::int64_t i = 0; i < numel(); i += run) {
    std::memset(covered.data() + (start_ + offset_of(i)) * size, 1,
                static_cast<std::size_t>(run * size));
  }
}

// Bit for bit, so that a NaN keeps its payload.
void Tensor::copy_from(const Tensor& other) {
  const auto size = static_cast<std::size_t>(tilegate::size_of(dtype_));
  for (std::int64_t i = 0; i < numel(); ++i) {
    std::memcpy(element(offset_of(i)), other.element(other.offset_of(i)), size);
  }
}

void Tensor::upload(Memory& memory) const {
  if (!present() || memory.device().type == tilegate::DeviceType::kCpu) return;
  if (block_->device_data == nullptr) {
    block_->device_data = memory.allocate(block_->bytes);
    block_->memory = &memory;
  }
  memory.to_device(block_->device_data, block_->host, block_->bytes);
}

void Tensor::download() const {
  if (!present() || block_->device_data == nullptr) return;
  block_->memory->to_host(block_->host, block_->device_data, block_->bytes);
}

}  // namespace laws
