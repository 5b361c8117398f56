// SPDX-License-Identifier: Apache-2.0
// The rules of --check, on tensors and results made by hand: what a right kernel never shows.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "case_builder.h"
#include "cli/case/case_file.h"
#include "cli/check/compare.h"
#include "cli/check/unchanged.h"
#include "program.h"

namespace tilegate::cli::testing {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

Comparison compare_values(std::vector<float> output, std::vector<float> expected,
                          Tolerance tolerance) {
  const auto size = static_cast<std::int64_t>(output.size());
  return compare(TensorView::packed(output.data(), DType::kFloat32, {size}),
                 TensorView::packed(expected.data(), DType::kFloat32, {size}), tolerance);
}

bool right(std::vector<float> output, std::vector<float> expected, Tolerance tolerance = {1, 1}) {
  return compare_values(std::move(output), std::move(expected), tolerance).miss.empty();
}

TEST(Compare, PositionsOfNanAndOfEachInfinityMustAgree) {
  EXPECT_TRUE(right({kNan, kInf, -kInf, 1}, {kNan, kInf, -kInf, 1}));
  EXPECT_FALSE(right({1, 1}, {kNan, 1}));
  EXPECT_FALSE(right({kNan, 1}, {1, 1}));
  EXPECT_FALSE(right({kInf}, {-kInf}));
  EXPECT_FALSE(right({kNan}, {kInf}));
  EXPECT_FALSE(right({kInf}, {1}));
}

TEST(Compare, BothNormsMustHold) {
  const Comparison seen = compare_values({3, 4.5}, {3, 4}, {1, 1});
  EXPECT_NEAR(seen.rel_rms, 0.1, 1e-12);
  EXPECT_NEAR(seen.max_abs, 0.5, 1e-12);
  EXPECT_FALSE(right({3, 4.5}, {3, 4}, {0.09, 1}));
  EXPECT_FALSE(right({3, 4.5}, {3, 4}, {1, 0.4}));
  EXPECT_TRUE(right({3, 4.5}, {3, 4}, {0.11, 0.51}));
}

TEST(Compare, OnlyFiniteEntriesHaveNorms) {
  EXPECT_NEAR(compare_values({kInf, 3, 4.5}, {kInf, 3, 4}, {1, 1}).rel_rms, 0.1, 1e-12);
  EXPECT_TRUE(right({kNan, kInf}, {kNan, kInf}, {0, 0}));
}

TEST(Compare, WithoutAnAnswerOfSizeOnlyMaxAbsCounts) {
  EXPECT_TRUE(right({0.5, -0.5}, {0, 0}, {0, 0.5}));
  EXPECT_FALSE(right({0.5, -0.5}, {0, 0}, {1, 0.4}));
}

TEST(Compare, ReadsStorageDtypes) {
  std::uint16_t half[] = {0x3c00, 0xbc00, 0x0001, 0x7c00, 0x7e00, 0x83ff};
  std::vector<float> values = {1, -1, std::ldexp(1.0f, -24), kInf, kNan, -std::ldexp(1023.0f, -24)};
  const TensorView expected = TensorView::packed(values.data(), DType::kFloat32, {6});
  EXPECT_TRUE(
      compare(TensorView::packed(half, DType::kFloat16, {6}), expected, {0, 0}).miss.empty());
  std::uint16_t wide[] = {0x3f80, 0xbf80, 0xff80};
  std::vector<float> wide_values = {1, -1, -kInf};
  EXPECT_TRUE(compare(TensorView::packed(wide, DType::kBFloat16, {3}),
                      TensorView::packed(wide_values.data(), DType::kFloat32, {3}), {0, 0})
                  .miss.empty());
}

class Loaded : public ::testing::Test {
 protected:
  Case load(const CaseBuilder& c) {
    const std::string path = folder_ + "/case.safetensors";
    c.write(path);
    return load_case(path, {}).value();
  }
  std::string folder_ = fresh_folder();
};

TEST_F(Loaded, ATensorsOwnToleranceOverridesBoth) {
  CaseBuilder c = ragged_case();
  c.metadata["check"] = R"({"rel_rms":1,"max_abs":2,"lse":{"rel_rms":3,"max_abs":4}})";
  const Case loaded = load(c);
  EXPECT_EQ(loaded.tolerance_of("o")->rel_rms, 1);
  EXPECT_EQ(loaded.tolerance_of("o")->max_abs, 2);
  EXPECT_EQ(loaded.tolerance_of("lse")->rel_rms, 3);
  EXPECT_EQ(loaded.tolerance_of("lse")->max_abs, 4);
}

// What the call left in the pool: a copy of the input with one bit of `row` flipped.
std::string changed_when_flipped(const Case& c, const std::string& input, const std::string& output,
                                 std::size_t row) {
  Tensors results;
  io::HostTensor after = c.inputs.at(input).clone().value();
  const std::size_t bytes = after.bytes() / static_cast<std::size_t>(after.view().shape[0]);
  after.data()[row * bytes] ^= std::byte{1};
  results.emplace(output, std::move(after));
  return find_changed_state(c, results);
}

TEST_F(Loaded, OnlyRowsOfSequencesWithTokensMayChange) {
  const Case c = load(pool_case());  // tokens in slot 3, none in slot 1, a negative slot
  EXPECT_EQ(changed_when_flipped(c, "state_pool", "state_pool", 3), "");
  for (const std::size_t row : {0u, 1u, 2u, 4u}) {
    EXPECT_NE(changed_when_flipped(c, "state_pool", "state_pool", row), "") << row;
  }
}

TEST_F(Loaded, AnEmptySequenceThatStartsFromZeroLeavesZero) {
  CaseBuilder builder = pool_case();
  builder.add("has_initial_state", DType::kUInt8, {3});  // all zero
  const Case c = load(builder);
  Tensors results;
  io::HostTensor after = c.inputs.at("state_pool").clone().value();
  const std::size_t bytes = 8 * 8 * sizeof(float);
  std::memset(after.data() + bytes, 0, bytes);  // slot 1, of the empty sequence
  results.emplace("state_pool", after.clone().value());
  EXPECT_EQ(find_changed_state(c, results), "");
  after.as<float>()[64] = -0.0f;
  results.insert_or_assign("state_pool", std::move(after));
  EXPECT_NE(find_changed_state(c, results), "");
}

TEST_F(Loaded, AnEmptySequenceHandsOnItsInitialState) {
  const Case c = load(state_case());  // sequence 1 is empty
  EXPECT_EQ(changed_when_flipped(c, "initial_state", "final_state", 0), "");
  EXPECT_NE(changed_when_flipped(c, "initial_state", "final_state", 1), "");
}

}  // namespace
}  // namespace tilegate::cli::testing
