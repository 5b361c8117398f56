// SPDX-License-Identifier: Apache-2.0
// Law: offsets are 64-bit. Views into a sparse mapping (address space without memory) put rows,
// heads and pages past 2^31 and 2^32 elements; the bits equal those of packed tensors.
#include <algorithm>

#include "tests/op/oracle/attention_law.h"
#include "tests/op/tensor/sparse.h"

namespace laws {
namespace {

class HugeStrides : public AttentionLaw {
 protected:
  void SetUp() override {
    if (!on_cpu_device()) GTEST_SKIP() << "a sparse mapping is host memory";
  }
  static bool refused(std::initializer_list<const Tensor*> tensors) {
    return std::any_of(tensors.begin(), tensors.end(),
                       [](const Tensor* t) { return !t->present(); });
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
      huge.k = sparse_copy(packed.k, 0, stride);
      huge.v = sparse_copy(packed.v, 0, stride);
      if (refused({&huge.k, &huge.v})) GTEST_SKIP() << "mmap refused";
      expect_same(packed, huge, "page stride " + std::to_string(stride));
    }
  }
}

TEST_P(HugeStrides, HeadsPast32Bits) {
  const AttentionCall ragged = make_ragged({.dtype = tilegate::DType::kFloat16});
  AttentionCall huge = ragged;
  huge.reset_outputs();
  huge.q = sparse_copy(ragged.q, 1, kPast31);
  huge.k = sparse_copy(ragged.k, 1, kPast32);
  huge.v = sparse_copy(ragged.v, 1, kPast32);
  huge.o = sparse_copy(ragged.o, 1, kPast31);
  if (refused({&huge.q, &huge.k, &huge.v, &huge.o})) GTEST_SKIP() << "mmap refused";
  expect_same(ragged, huge, "huge head strides");
}

TEST_P(HugeStrides, RowsPast32Bits) {
  const AttentionCall ragged = make_ragged(
      {.qo_lens = {2, 3}, .kv_lens = {3, 4}, .dtype = tilegate::DType::kBFloat16, .spare_rows = 0});
  AttentionCall huge = ragged;
  huge.reset_outputs();
  huge.q = sparse_copy(ragged.q, 0, kPast31);
  huge.k = sparse_copy(ragged.k, 0, kPast32);
  huge.v = sparse_copy(ragged.v, 0, kPast31);
  huge.o = sparse_copy(ragged.o, 0, kPast32);
  if (refused({&huge.q, &huge.k, &huge.v, &huge.o})) GTEST_SKIP() << "mmap refused";
  expect_same(ragged, huge, "huge row strides");
}

LAWS_ON_EVERY_BACKEND(HugeStrides);

}  // namespace
}  // namespace laws
