// SPDX-License-Identifier: Apache-2.0
// Laws of cpu.flash that follow from how it cuts work: bits do not depend on threads, on the other
// rows of a tile, on later keys, or on whether splits are walked in parallel; and every SIMD target
// computes the formula (against the reference backend).
#include "backend/cpu/simd_targets.h"
//
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "tilegate/tilegate.h"

namespace tilegate {
namespace {

constexpr std::int64_t kHeadsQ = 6;
constexpr std::int64_t kHeadsKv = 2;
constexpr std::int64_t kDimQk = 72;  // no whole number of vectors
constexpr std::int64_t kDimV = 40;

struct Answer {
  std::vector<float> o;
  std::vector<float> lse;
  bool operator==(const Answer&) const = default;
};

std::vector<float> random_values(std::int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-1.5f, 1.5f);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = uniform(generator);
  return values;
}

TensorView view(std::vector<float>& values, std::initializer_list<std::int64_t> shape) {
  return TensorView::packed(values.data(), DType::kFloat32, shape);
}

Context context(int threads) {
  ContextOptions options;
  options.num_threads = threads;
  return Context::create(options).value();
}

// One request of `rows` queries on `keys` keys, fp32.
struct Request {
  std::int64_t rows = 0;
  std::int64_t keys = 0;
  std::int64_t dim_qk = 0;
  std::int64_t dim_v = 0;
  std::vector<float> q, k, v;

  Request(std::int64_t rows_in, std::int64_t keys_in, std::int64_t dim_qk_in = kDimQk,
          std::int64_t dim_v_in = kDimV)
      : rows(rows_in),
        keys(keys_in),
        dim_qk(dim_qk_in),
        dim_v(dim_v_in),
        q(random_values(rows * kHeadsQ * dim_qk, 1)),
        k(random_values(keys * kHeadsKv * dim_qk, 2)),
        v(random_values(keys * kHeadsKv * dim_v, 3)) {}

  // Rows [first, first + count) on the first `visible` keys.
  Answer prefill(Context& on, AttentionOptions options, std::int64_t first, std::int64_t count,
                 std::int64_t visible) {
    Answer answer{std::vector<float>(static_cast<std::size_t>(count * kHeadsQ * dim_v)),
                  std::vector<float>(static_cast<std::size_t>(count * kHeadsQ))};
    PrefillRaggedArgs args;
    args.q = view(q, {1, count, kHeadsQ, dim_qk});
    args.q.data = q.data() + first * kHeadsQ * dim_qk;
    args.k = view(k, {1, visible, kHeadsKv, dim_qk});
    args.v = view(v, {1, visible, kHeadsKv, dim_v});
    args.o = view(answer.o, {1, count, kHeadsQ, dim_v});
    args.lse = view(answer.lse, {count, kHeadsQ});
    batch_prefill_ragged(on, args, options).throw_if_error();
    return answer;
  }

  // The last `count` rows against pages of `page_size` keys.
  Answer decode(Context& on, AttentionOptions options, std::int64_t count, std::int64_t page_size) {
    const std::int64_t pages = keys / page_size;
    std::vector<std::int32_t> table(static_cast<std::size_t>(pages));
    std::iota(table.begin(), table.end(), 0);
    std::vector<std::int32_t> length{static_cast<std::int32_t>(keys)};
    Answer answer{std::vector<float>(static_cast<std::size_t>(count * kHeadsQ * dim_v)),
                  std::vector<float>(static_cast<std::size_t>(count * kHeadsQ))};
    DecodePagedArgs args;
    args.q = view(q, {count, kHeadsQ, dim_qk});
    args.k_cache = view(k, {pages, page_size, kHeadsKv, dim_qk});
    args.v_cache = view(v, {pages, page_size, kHeadsKv, dim_v});
    args.table.block_tables = TensorView::packed(table.data(), DType::kInt32, {1, pages});
    args.table.kv_lens = TensorView::packed(length.data(), DType::kInt32, {1});
    args.o = view(answer.o, {count, kHeadsQ, dim_v});
    args.lse = view(answer.lse, {count, kHeadsQ});
    options.q_len_per_req = count;
    batch_decode_paged(on, args, options).throw_if_error();
    return answer;
  }
};

AttentionOptions causal_on_cpu() {
  AttentionOptions options;
  options.causal = true;
  options.backend = Backend::kCpu;
  return options;
}

Answer row_of(const Answer& all, std::int64_t row) {
  const auto o = all.o.begin() + row * kHeadsQ * kDimV;
  const auto lse = all.lse.begin() + row * kHeadsQ;
  return {std::vector<float>(o, o + kHeadsQ * kDimV), std::vector<float>(lse, lse + kHeadsQ)};
}

void expect_close(const std::vector<float>& got, const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], 5e-6f * (1.0f + std::abs(want[i]))) << i;
  }
}

TEST(CpuAttention, BitsDoNotDependOnThreads) {
  Context one = context(1);
  Context three = context(3);
  Request request(70, 333);
  EXPECT_EQ(request.prefill(one, causal_on_cpu(), 0, 70, 333),
            request.prefill(three, causal_on_cpu(), 0, 70, 333));
}

// One thread folds the splits as it walks, three walk them apart and fold the stored states.
TEST(CpuAttention, BitsDoNotDependOnHowSplitsAreWalked) {
  Context one = context(1);
  Context three = context(3);
  Request request(2, 2600);
  AttentionOptions options = causal_on_cpu();
  for (const std::int64_t split : {0, 100, 1000}) {
    options.fixed_split_size = split;
    EXPECT_EQ(request.decode(one, options, 2, 20), request.decode(three, options, 2, 20)) << split;
  }
}

TEST(CpuAttention, SplitsAgreeWithOneSplit) {
  Context on = context(2);
  Request request(3, 700);
  AttentionOptions options = causal_on_cpu();
  options.disable_split_kv = true;
  const Answer whole = request.decode(on, options, 3, 10);
  options.disable_split_kv = false;
  for (const std::int64_t split : {1, 37, 64, 699}) {
    options.fixed_split_size = split;
    const Answer parts = request.decode(on, options, 3, 10);
    expect_close(parts.o, whole.o);
    expect_close(parts.lse, whole.lse);
  }
}

// A row of a long run equals the same row as a run of its own, whatever shares its tile.
TEST(CpuAttention, BitsOfARowDoNotDependOnItsNeighbours) {
  Context on = context(2);
  Request request(101, 101);
  for (const std::int64_t window : {-1, 20}) {
    AttentionOptions options = causal_on_cpu();
    options.window_left = window;
    const Answer all = request.prefill(on, options, 0, 101, 101);
    for (std::int64_t row : {0, 1, 31, 32, 63, 64, 65, 99, 100}) {
      EXPECT_EQ(request.prefill(on, options, row, 1, row + 1), row_of(all, row)) << row;
    }
    EXPECT_EQ(request.prefill(on, options, 0, 40, 40).o,
              std::vector<float>(all.o.begin(), all.o.begin() + 40 * kHeadsQ * kDimV));
  }
}

// A later key is in the same tile; its NaN must stay out of rows that do not see it, and of their
// bits.
TEST(CpuAttention, LaterKeysAreNotMultiplied) {
  Context on = context(1);
  Request request(50, 50);
  const Answer clean = request.prefill(on, causal_on_cpu(), 0, 50, 50);
  const float bad[] = {std::numeric_limits<float>::quiet_NaN(),
                       std::numeric_limits<float>::infinity()};
  for (std::int64_t i = 30 * kHeadsKv * kDimV; i < 50 * kHeadsKv * kDimV; ++i) {
    request.v[static_cast<std::size_t>(i)] = bad[i % 2];
  }
  for (std::int64_t i = 30 * kHeadsKv * kDimQk; i < 50 * kHeadsKv * kDimQk; ++i) {
    request.k[static_cast<std::size_t>(i)] = bad[0];
  }
  const Answer spoiled = request.prefill(on, causal_on_cpu(), 0, 50, 50);
  for (std::int64_t row = 0; row < 30; ++row) {
    EXPECT_EQ(row_of(spoiled, row), row_of(clean, row)) << row;
  }
  for (const float value : row_of(spoiled, 30).o) EXPECT_TRUE(std::isnan(value));
}

TEST(CpuAttention, EveryTargetComputesTheFormula) {
  Context on = context(2);
  Request request(45, 150);
  AttentionOptions options = causal_on_cpu();
  options.logits_soft_cap = 2.5;
  options.window_left = 100;
  options.backend = Backend::kReference;
  const Answer want = request.prefill(on, options, 0, 45, 150);
  options.backend = Backend::kCpu;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    const Answer got = request.prefill(on, options, 0, 45, 150);
    expect_close(got.o, want.o);
    expect_close(got.lse, want.lse);
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

// Few rows and whole vectors: keys are used where they lie.
TEST(CpuAttention, DirectDecodeComputesTheFormula) {
  Context one = context(1);
  Context three = context(3);
  Request request(2, 2223, 64, 96);
  AttentionOptions options = causal_on_cpu();
  for (const std::int64_t window : {-1, 700}) {
    options.window_left = window;
    options.backend = Backend::kReference;
    const Answer want = request.decode(one, options, 2, 3);
    options.backend = Backend::kCpu;
    const Answer got = request.decode(one, options, 2, 3);
    expect_close(got.o, want.o);
    expect_close(got.lse, want.lse);
    EXPECT_EQ(request.decode(three, options, 2, 3), got);
  }
}

// The second row of a step sees one key more than the first; its NaN must not reach the first.
TEST(CpuAttention, DirectDecodeDoesNotMultiplyLaterKeys) {
  Context on = context(1);
  Request request(2, 40, 64, 64);
  const Answer clean = request.decode(on, causal_on_cpu(), 2, 8);
  for (std::int64_t i = 39 * kHeadsKv * 64; i < 40 * kHeadsKv * 64; ++i) {
    request.v[static_cast<std::size_t>(i)] = std::numeric_limits<float>::quiet_NaN();
  }
  const Answer spoiled = request.decode(on, causal_on_cpu(), 2, 8);
  for (std::size_t i = 0; i < kHeadsQ * 64; ++i) {
    EXPECT_EQ(spoiled.o[i], clean.o[i]) << i;
    EXPECT_TRUE(std::isnan(spoiled.o[kHeadsQ * 64 + i])) << i;
  }
}

// Logits far below any sentinel are logits like others.
TEST(CpuAttention, HugeNegativeLogitsKeepTheirDifferences) {
  Context on = context(1);
  Request request(1, 3);
  std::fill(request.q.begin(), request.q.end(), 0.0f);
  std::fill(request.k.begin(), request.k.end(), 0.0f);
  for (std::int64_t h = 0; h < kHeadsQ; ++h) request.q[static_cast<std::size_t>(h * kDimQk)] = 1.0f;
  const float logits[] = {-524288.0f, -524289.0f, -524288.0f};
  for (std::int64_t j = 0; j < 3; ++j) {
    for (std::int64_t h = 0; h < kHeadsKv; ++h) {
      request.k[static_cast<std::size_t>((j * kHeadsKv + h) * kDimQk)] = logits[j];
    }
  }
  AttentionOptions options;
  options.backend = Backend::kCpu;
  options.scale = 1.0;
  const Answer got = request.prefill(on, options, 0, 1, 3);
  options.backend = Backend::kReference;
  const Answer want = request.prefill(on, options, 0, 1, 3);
  expect_close(got.o, want.o);
  expect_close(got.lse, want.lse);
}

}  // namespace
}  // namespace tilegate
