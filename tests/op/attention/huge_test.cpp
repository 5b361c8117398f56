// SPDX-License-Identifier: Apache-2.0
// Law: offsets are 64-bit. Views into a sparse mapping (address space without memory) put rows,
// heads and pages past 2^31 and 2^32 elements; the bits equal those of packed tensors.
#include <iostream>

#include "tests/op/harness/attention_law.h"

namespace laws {
namespace {

constexpr std::int64_t kPast31 = (std::int64_t{1} << 31) + 64;
constexpr std::int64_t kPast32 = (std::int64_t{1} << 32) + 128;

class HugeStrides : public AttentionLaw {
 protected:
  void SetUp() override {
    if (!on_cpu_device()) GTEST_SKIP() << "a sparse mapping is host memory";
  }
  // The values of `packed` with a pitch of `stride` elements in dimension `dim`. Absent if the
  // system refuses the mapping.
  static Tensor sparse(const Tensor& packed, int dim, std::int64_t stride) {
    Dims strides = packed.strides();
    strides[static_cast<std::size_t>(dim)] = stride;
    std::int64_t elements = 1;
    for (std::size_t d = 0; d < strides.size(); ++d) {
      elements += (packed.shape()[d] - 1) * strides[d];
    }
    const auto bytes = static_cast<std::size_t>(elements * tilegate::size_of(packed.dtype()));
    std::shared_ptr<Block> block = Block::sparse(bytes);
    if (block == nullptr) return {};
    Tensor tensor = Tensor::in_block(block, packed.dtype(), packed.shape(), strides);
    tensor.copy_from(packed);
    return tensor;
  }
  static bool refused(std::initializer_list<const Tensor*> tensors) {
    for (const Tensor* t : tensors) {
      if (t->present()) continue;
      std::cout << "skipped: mmap refused a sparse mapping\n";
      return true;
    }
    return false;
  }
  void expect_same(AttentionCall packed, AttentionCall huge, const std::string& note) {
    if (!run(packed) || !run(huge)) return;
    expect_same_bits(huge.o_rows(), packed.o_rows(), "o of " + note);
    expect_same_bits(huge.lse_rows(), packed.lse_rows(), "lse of " + note);
  }
};

TEST_P(HugeStrides, PagesPast32Bits) {
  for (const std::int64_t stride : {kPast31, kPast32}) {
    const AttentionCall ragged =
        make_ragged({.qo_lens = {2, 2}, .kv_lens = {5, 8}, .dtype = tilegate::DType::kBFloat16});
    for (const bool decode : {false, true}) {
      const AttentionCall packed = decode ? as_decode(ragged) : as_paged(ragged);
      AttentionCall huge = packed;
      huge.reset_outputs();
      huge.k = sparse(packed.k, 0, stride);
      huge.v = sparse(packed.v, 0, stride);
      if (refused({&huge.k, &huge.v})) GTEST_SKIP() << "mmap refused";
      expect_same(packed, huge, "page stride " + std::to_string(stride));
    }
  }
}

TEST_P(HugeStrides, HeadsPast32Bits) {
  const AttentionCall ragged = make_ragged({.dtype = tilegate::DType::kFloat16});
  AttentionCall huge = ragged;
  huge.reset_outputs();
  huge.q = sparse(ragged.q, 1, kPast31);
  huge.k = sparse(ragged.k, 1, kPast32);
  huge.v = sparse(ragged.v, 1, kPast32);
  huge.o = sparse(ragged.o, 1, kPast31);
  if (refused({&huge.q, &huge.k, &huge.v, &huge.o})) GTEST_SKIP() << "mmap refused";
  expect_same(ragged, huge, "huge head strides");
}

TEST_P(HugeStrides, RowsPast32Bits) {
  const AttentionCall ragged = make_ragged(
      {.qo_lens = {2, 3}, .kv_lens = {3, 4}, .dtype = tilegate::DType::kBFloat16, .spare_rows = 0});
  AttentionCall huge = ragged;
  huge.reset_outputs();
  huge.q = sparse(ragged.q, 0, kPast31);
  huge.k = sparse(ragged.k, 0, kPast32);
  huge.v = sparse(ragged.v, 0, kPast31);
  huge.o = sparse(ragged.o, 0, kPast32);
  if (refused({&huge.q, &huge.k, &huge.v, &huge.o})) GTEST_SKIP() << "mmap refused";
  expect_same(ragged, huge, "huge row strides");
}

LAWS_ON_EVERY_BACKEND(HugeStrides);

}  // namespace
}  // namespace laws
