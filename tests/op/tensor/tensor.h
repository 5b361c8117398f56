// SPDX-License-Identifier: Apache-2.0
// Tensor: a test's tensor. It shares an owned block of memory with the tensors sliced from it, has
// any shape and strides, and reads and writes elements as double.
//
// Every block starts full of poison (all bytes 0xff: NaN for floats, -1 for integers), so whatever
// a test does not fill is a trap. On a device backend upload() and download() move whole blocks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tilegate/tensor.h"

namespace laws {

using Dims = std::vector<std::int64_t>;

// Where the backend under test reads its tensors. The base class is host memory: nothing moves.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual tilegate::Device device() const { return {}; }
  virtual void* allocate(std::size_t /*bytes*/) { return nullptr; }
  virtual void release(void* /*data*/) {}
  virtual void to_device(void* /*device*/, const void* /*host*/, std::size_t /*bytes*/) {}
  virtual void to_host(void* /*host*/, const void* /*device*/, std::size_t /*bytes*/) {}
};

// An owned block: host memory, and its copy on a device while one is under test.
struct Block {
  explicit Block(std::size_t size);
  // A sparse block: address space only, pages appear as zero when touched. Null if mmap refuses.
  static std::shared_ptr<Block> sparse(std::size_t size);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  std::byte* host = nullptr;
  std::size_t bytes = 0;
  bool is_sparse = false;
  void* device_data = nullptr;
  Memory* memory = nullptr;

 private:
  Block() = default;
};

class Tensor {
 public:
  Tensor() = default;  // an absent argument

  static Tensor packed(tilegate::DType dtype, Dims shape);
  // Strides in elements, any of them; the block is as long as the farthest element needs.
  static Tensor strided(tilegate::DType dtype, Dims shape, Dims strides);
  static Tensor in_block(std::shared_ptr<Block> block, tilegate::DType dtype, Dims shape,
                         Dims strides);
  static Tensor indices(const std::vector<std::int64_t>& values,
                        tilegate::DType dtype = tilegate::DType::kInt32);
  static Tensor bytes(const std::vector<std::uint8_t>& values,
                      tilegate::DType dtype = tilegate::DType::kUInt8);

  bool present() const { return block_ != nullptr; }
  tilegate::DType dtype() const { return dtype_; }
  const Dims& shape() const { return shape_; }
  const Dims& strides() const { return strides_; }
  std::int64_t dim(int i) const { return shape_.at(static_cast<std::size_t>(i)); }
  std::int64_t numel() const;
  const std::shared_ptr<Block>& block() const { return block_; }
  tilegate::TensorView view() const;

  // Element i of the row-major order of the shape.
  double flat(std::int64_t i) const { return load(offset_of(i)); }
  void set_flat(std::int64_t i, double value) { store(offset_of(i), value); }
  // Its bits, for comparisons that no rounding may pass.
  std::uint64_t bits(std::int64_t i) const;

  template <class... I>
  double at(I... index) const {
    return load(offset({static_cast<std::int64_t>(index)...}));
  }
  template <class... I>
  void set(double value, I... index) {
    store(offset({static_cast<std::int64_t>(index)...}), value);
  }

  // Views of the same block.
  Tensor slice(int dim, std::int64_t begin, std::int64_t end) const;
  Tensor select(int dim, std::int64_t index) const;
  Tensor reshaped(Dims shape, Dims strides) const;
  Tensor permuted(const std::vector<int>& order) const;
  // A packed copy with its own block.
  Tensor clone() const;
  // The same values in other strides or another dtype.
  Tensor with_strides(Dims strides) const;
  Tensor as(tilegate::DType dtype) const;

  Tensor& fill(double value);
  // In row-major order.
  Tensor& assign(const std::vector<double>& values);
  Tensor& poison();
  // Sets the bit of every byte of the block that an element of this tensor covers.
  void mark(std::vector<std::uint8_t>& covered) const;
  void copy_from(const Tensor& other);

  void upload(Memory& memory) const;
  void download() const;

 private:
  std::int64_t offset(std::initializer_list<std::int64_t> index) const;
  std::int64_t offset_of(std::int64_t flat_index) const;
  double load(std::int64_t offset) const;
  void store(std::int64_t offset, double value);
  std::byte* element(std::int64_t offset) const;

  std::shared_ptr<Block> block_;
  tilegate::DType dtype_ = tilegate::DType::kFloat32;
  std::int64_t start_ = 0;  // elements from the start of the block
  Dims shape_;
  Dims strides_;
};

Dims packed_strides(const Dims& shape);
std::string to_string(const Dims& dims);

}  // namespace laws
