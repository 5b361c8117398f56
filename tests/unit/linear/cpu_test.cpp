// SPDX-License-Identifier: Apache-2.0
// The steps of the CPU chunk walk against fp64, with every instruction set of this machine: forward
// substitution for keys whose inverse cancels, decays of every kind, and rows that later rows
// cannot change. K = 40 leaves a tail behind every vector length.
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "backend/cpu/linear/steps.h"

namespace tilegate::cpu_linear {
namespace {

constexpr std::int64_t kDimK = 40;
constexpr auto kSize = static_cast<std::size_t>(kChunk);

// Runs the body once for every instruction set that this machine and this build have.
void for_each_target(const std::function<void()>& body) {
  const std::int64_t all = hwy::SupportedTargets();
  for (std::int64_t rest = all; rest != 0; rest &= rest - 1) {
    const std::int64_t target = rest & -rest;
    hwy::SetSupportedTargetsForTest(target);
    SCOPED_TRACE(hwy::TargetName(target));
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
}

std::vector<float> random_floats(std::size_t count, float low, float high) {
  std::mt19937 random(11);
  std::uniform_real_distribution<float> uniform(low, high);
  std::vector<float> values(count);
  for (float& x : values) x = uniform(random);
  return values;
}

// Strictly lower matrices of erase against keys, beta 1 and no decay.
std::vector<float> lower_matrix(const std::function<float(std::size_t, std::size_t)>& entry) {
  std::vector<float> lower(kSize * kSize, std::nanf(""));  // on and above the diagonal: not read
  for (std::size_t i = 0; i < kSize; ++i) {
    for (std::size_t j = 0; j < i; ++j) lower[i * kSize + j] = entry(i, j);
  }
  return lower;
}

// Largest error of the solve relative to the largest entry of the fp64 solution.
double solve_error(const std::vector<float>& lower) {
  const auto width = static_cast<std::size_t>(panel_width());
  const std::vector<float> right = random_floats(kSize * width, -1.0f, 1.0f);
  std::vector<float> y = right;
  solve_unit_lower(lower.data(), kChunk, y.data());
  double worst = 0.0;
  double scale = 0.0;
  for (std::size_t c = 0; c < width; ++c) {
    std::vector<double> exact(kSize);
    for (std::size_t i = 0; i < kSize; ++i) {
      exact[i] = right[i * width + c];
      for (std::size_t j = 0; j < i; ++j) exact[i] -= double{lower[i * kSize + j]} * exact[j];
      worst = std::max(worst, std::abs(exact[i] - y[i * width + c]));
      if (std::isnan(y[i * width + c])) worst = INFINITY;
      scale = std::max(scale, std::abs(exact[i]));
    }
  }
  return worst / scale;
}

TEST(CpuLinearSolve, KeepsFp32ForParallelKeys) {
  for_each_target([] {
    EXPECT_LT(solve_error(lower_matrix([](auto, auto) { return 1.0f; })), 1e-6) << "identical";
    EXPECT_LT(solve_error(lower_matrix([](auto, auto) { return 0.99f; })), 1e-6) << "parallel";
    EXPECT_LT(solve_error(lower_matrix([](auto i, auto j) { return (i + j) % 2 ? -1.0f : 1.0f; })),
              1e-6)
        << "alternating";
    const std::vector<float> noise = random_floats(kSize * kSize, -0.3f, 0.3f);
    EXPECT_LT(solve_error(lower_matrix([&](auto i, auto j) { return noise[i * kSize + j]; })), 1e-5)
        << "random";
  });
}

TEST(CpuLinearSolve, LaterRowsChangeNoBit) {
  for_each_target([] {
    const auto width = static_cast<std::size_t>(panel_width());
    const std::vector<float> lower =
        lower_matrix([](auto i, auto j) { return 0.9f / (1 + i - j); });
    std::vector<float> y = random_floats(kSize * width, -1.0f, 1.0f);
    std::vector<float> spoilt = y;
    constexpr std::size_t kKept = 21;  // ends inside a block
    for (std::size_t i = kKept * width; i < spoilt.size(); ++i) spoilt[i] = INFINITY;
    solve_unit_lower(lower.data(), kChunk, y.data());
    solve_unit_lower(lower.data(), kChunk, spoilt.data());
    EXPECT_EQ(std::memcmp(y.data(), spoilt.data(), kKept * width * sizeof(float)), 0);
  });
}

enum class Gates : std::uint8_t { kScalar, kChannel };

// A chunk with random keys, queries and erase vectors, and a decay for every row and channel.
// Scalar gates take the decay of channel 0 for all, and an erase vector in the direction of the
// key.
class Chunk {
 public:
  using Decay = std::function<float(std::int64_t row, std::int64_t channel)>;

  Chunk(Gates gates, std::int64_t rows, const Decay& decay) : rows_(rows) {
    const ChunkDims dims = {.dim_k = kDimK, .columns = 8};
    memory_.resize(lay_out(dims, nullptr, nullptr) + 64);
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    lay_out(dims, memory_.data() + (64 - address % 64) % 64, &b);
    const std::vector<float> values = random_floats(3 * kSize * kDimK, -0.3f, 0.3f);
    std::size_t next = 0;
    for (std::int64_t i = 0; i < kChunk; ++i) {
      for (std::int64_t c = 0; c < pitch(); ++c) {
        const bool used = i < rows && c < kDimK;
        for (float* matrix : {b.keys, b.erase, b.query}) {
          matrix[i * pitch() + c] = used ? values[next++] : 0.0f;
        }
        b.decay[i * pitch() + c] = used ? decay(i, gates == Gates::kScalar ? 0 : c) : 1.0f;
      }
      b.row_decay[i] = b.decay[i * pitch()];
      b.row_erase[i] = 1.0f - 0.01f * static_cast<float>(i);
    }
    for (std::int64_t i = 0; gates == Gates::kScalar && i < kChunk * pitch(); ++i) {
      b.erase[i] = b.keys[i] * b.row_erase[i / pitch()];
      b.raw_query[i] = b.query[i];
    }
    keys_ = copy(b.keys);
    erase_ = copy(b.erase);
    query_ = copy(b.query);
  }

  std::int64_t pitch() const { return b.dims.key_pitch(); }

  // Every result against products in fp64, relative to the bound 0.3 * 0.3 * K on an entry.
  void expect_exact() const {
    for (std::int64_t i = 0; i < rows_; ++i) {
      for (std::int64_t j = 0; j <= i; ++j) {
        if (j < i) expect_near(b.lower[i * kChunk + j], pair(erase_, i, j), "L", i, j);
        expect_near(b.reads[i * kChunk + j], pair(query_, i, j), "P", i, j);
      }
      for (std::int64_t c = 0; c < kDimK; ++c) {
        const double head = between(-1, i, c);
        expect_near(b.erase[i * pitch() + c], erase_[at(i, c)] * head, "erase", i, c);
        expect_near(b.query[i * pitch() + c], query_[at(i, c)] * head, "query", i, c);
        const double tail = keys_[at(i, c)] * between(i, rows_ - 1, c);
        expect_near(b.tail_t[c * kChunk + i], tail, "tail", i, c);
      }
    }
    const float* whole = b.prefix_decay + round_up(rows_, kBlock) / kBlock * pitch();
    for (std::int64_t c = 0; c < kDimK; ++c) {
      expect_near(whole[c], between(-1, rows_ - 1, c), "prefix", rows_, c);
    }
  }

  ChunkBuffers b;

 private:
  static std::size_t at(std::int64_t i, std::int64_t c) {
    return static_cast<std::size_t>(i * round_up(kDimK, 16) + c);
  }
  std::vector<float> copy(const float* from) const { return {from, from + kChunk * pitch()}; }
  // Decay of rows (j, i] in channel c.
  double between(std::int64_t j, std::int64_t i, std::int64_t c) const {
    double product = 1.0;
    for (std::int64_t t = j + 1; t <= i; ++t) product *= double{b.decay[t * pitch() + c]};
    return product;
  }
  double pair(const std::vector<float>& left, std::int64_t i, std::int64_t j) const {
    double sum = 0.0;
    for (std::int64_t c = 0; c < kDimK; ++c) {
      sum += double{left[at(i, c)]} * double{keys_[at(j, c)]} * between(j, i, c);
    }
    return sum;
  }
  static void expect_near(float actual, double exact, const char* what, std::int64_t i,
                          std::int64_t j) {
    EXPECT_NEAR(actual, exact, 2e-6 * std::abs(exact) + 2e-7) << what << " at " << i << ", " << j;
  }

  std::int64_t rows_;
  std::vector<std::byte> memory_;
  std::vector<float> keys_, erase_, query_;
};

struct NamedDecay {
  const char* name;
  Chunk::Decay decay;
};

std::vector<NamedDecay> decays() {
  return {
      {"none", [](auto, auto) { return 1.0f; }},
      {"mild", [](auto i, auto c) { return 1.0f - 0.001f * static_cast<float>((i + c) % 7); }},
      {"zero everywhere", [](auto, auto) { return 0.0f; }},
      {"zero now and then", [](auto i, auto c) { return (i + c) % 9 == 0 ? 0.0f : 0.999f; }},
      {"tiny", [](auto, auto) { return 1e-12f; }},
      {"one spike", [](auto i, auto) { return i == 5 ? 1e-38f : 0.9999f; }},
      {"spikes", [](auto i, auto) { return i % 3 == 0 ? 1e-20f : 0.9999f; }},
      {"saturated bound", [](auto, auto) { return std::exp(-5.0f); }},
      {"opposite channels", [](auto, auto c) { return c % 2 == 0 ? 1.0f : 1e-5f; }},
  };
}

TEST(CpuLinearGates, ChannelDecaysOfEveryKind) {
  for_each_target([] {
    for (const NamedDecay& gate : decays()) {
      for (const std::int64_t rows : {1, 15, 16, 17, 49, 64}) {
        SCOPED_TRACE(gate.name);
        const Chunk chunk(Gates::kChannel, rows, gate.decay);
        prepare_channel_gates(rows, chunk.b);
        chunk.expect_exact();
      }
    }
  });
}

TEST(CpuLinearGates, ScalarDecaysOfEveryKind) {
  for_each_target([] {
    for (const NamedDecay& gate : decays()) {
      for (const std::int64_t rows : {1, 15, 16, 17, 49, 64}) {
        SCOPED_TRACE(gate.name);
        const Chunk chunk(Gates::kScalar, rows, gate.decay);
        prepare_scalar_gates(rows, chunk.b);
        chunk.expect_exact();
      }
    }
  });
}

TEST(CpuLinearGates, APartialChunkIsTheHeadOfAFullOne) {
  for_each_target([] {
    for (const Gates gates : {Gates::kScalar, Gates::kChannel}) {
      const auto prepare = gates == Gates::kScalar ? &prepare_scalar_gates : &prepare_channel_gates;
      const auto decay = [](auto i, auto c) {
        return 0.9f + 0.001f * static_cast<float>((i + c) % 90);
      };
      const Chunk full(gates, kChunk, decay);
      const Chunk head(gates, 23, decay);
      prepare(kChunk, full.b);
      prepare(23, head.b);
      for (std::int64_t i = 0; i < 23; ++i) {
        const auto bytes = static_cast<std::size_t>(i + 1) * sizeof(float);
        const float* full_reads = full.b.reads + i * kChunk;
        EXPECT_EQ(std::memcmp(full_reads, head.b.reads + i * kChunk, bytes), 0) << "row " << i;
        const auto row = static_cast<std::size_t>(kDimK) * sizeof(float);
        const float* full_erase = full.b.erase + i * full.pitch();
        EXPECT_EQ(std::memcmp(full_erase, head.b.erase + i * full.pitch(), row), 0) << "row " << i;
      }
    }
  });
}

}  // namespace
}  // namespace tilegate::cpu_linear
