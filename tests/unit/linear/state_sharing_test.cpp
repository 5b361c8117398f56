// SPDX-License-Identifier: Apache-2.0
// When two views of states share memory: the same rows, neighbours in one page, or a tangle.
#include "problem/state_sharing.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

namespace tilegate {
namespace {

constexpr std::int64_t kHeads = 2, kV = 3, kK = 8;
constexpr std::int64_t kRow = kHeads * kV * kK;

struct Pool {
  std::vector<float> memory = std::vector<float>(40 * kRow);

  // `rows` packed rows from element `at`.
  TensorView rows(std::int64_t at, std::int64_t rows, DType dtype = DType::kFloat32) {
    return TensorView::packed(memory.data() + at, dtype, {rows, kHeads, kV, kK});
  }
  TensorView strided(std::int64_t at, std::int64_t rows, std::array<std::int64_t, 4> strides) {
    TensorView view = this->rows(at, rows);
    for (int i = 0; i < 4; ++i) view.strides[i] = strides[i];
    return view;
  }
};

TEST(StateSharing, SlicesOfAPoolAreItsRows) {
  Pool pool;
  const SharedRows shared = shared_rows(pool.rows(2 * kRow, 3), pool.rows(0, 4));
  EXPECT_EQ(shared.sharing, Sharing::kRows);
  EXPECT_EQ(shared.shift, 2);
  EXPECT_EQ(shared_rows(pool.rows(0, 4), pool.rows(2 * kRow, 3)).shift, -2);
  EXPECT_EQ(shared_rows(pool.rows(0, 4), pool.rows(0, 4)).sharing, Sharing::kRows);
}

TEST(StateSharing, ApartOrWithoutMemoryIsNone) {
  Pool pool;
  EXPECT_EQ(shared_rows(pool.rows(0, 2), pool.rows(2 * kRow, 2)).sharing, Sharing::kNone);
  EXPECT_EQ(shared_rows(pool.rows(2 * kRow, 2), pool.rows(0, 2)).sharing, Sharing::kNone);
  EXPECT_EQ(shared_rows(pool.rows(0, 0), pool.rows(0, 2)).sharing, Sharing::kNone);
  EXPECT_EQ(shared_rows({}, pool.rows(0, 2)).sharing, Sharing::kNone);
}

TEST(StateSharing, LayersBetweenEachOtherAreApart) {
  Pool pool;
  const std::array<std::int64_t, 4> layer = {2 * kRow, kV * kK, kK, 1};
  EXPECT_EQ(shared_rows(pool.strided(0, 4, layer), pool.strided(kRow, 4, layer)).sharing,
            Sharing::kNone);
  // Two layers a head: [rows, heads, 2, V, K].
  const std::array<std::int64_t, 4> head = {2 * kRow, 2 * kV * kK, kK, 1};
  EXPECT_EQ(shared_rows(pool.strided(0, 4, head), pool.strided(kV * kK, 4, head)).sharing,
            Sharing::kNone);
  // Half the page in another dtype.
  TensorView half = pool.rows(kRow, 4, DType::kFloat16);
  half.strides[0] = 4 * kRow;
  EXPECT_EQ(shared_rows(pool.strided(0, 4, layer), half).sharing, Sharing::kNone);
}

TEST(StateSharing, OneRowHasNoStrideOfItsOwn) {
  Pool pool;
  const std::array<std::int64_t, 4> wide = {3 * kRow, kV * kK, kK, 1};
  const SharedRows shared = shared_rows(pool.rows(6 * kRow, 1), pool.strided(0, 4, wide));
  EXPECT_EQ(shared.sharing, Sharing::kRows);
  EXPECT_EQ(shared.shift, 2);
}

TEST(StateSharing, AnythingElseThatMeetsIsTangled) {
  Pool pool;
  EXPECT_EQ(shared_rows(pool.rows(0, 4), pool.rows(kV * kK, 4)).sharing, Sharing::kTangled);
  EXPECT_EQ(shared_rows(pool.rows(0, 4), pool.rows(0, 4, DType::kFloat16)).sharing,
            Sharing::kTangled);
  EXPECT_EQ(shared_rows(pool.rows(0, 4), pool.strided(0, 4, {2 * kRow, kV * kK, kK, 1})).sharing,
            Sharing::kTangled);
  // A view that repeats one row may be read; its one row is in the pool.
  EXPECT_EQ(shared_rows(pool.strided(kRow, 3, {0, kV * kK, kK, 1}), pool.rows(0, 4)).sharing,
            Sharing::kTangled);
}

}  // namespace
}  // namespace tilegate
