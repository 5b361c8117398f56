// SPDX-License-Identifier: Apache-2.0
// Ceilings: each is the best of a few tries, since other work on the machine only slows them down.
#include "bench/measure/ceilings.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <vector>

// One loop compiled for several instruction sets and chosen when it is loaded, which sanitizers do
// not survive.
#if defined(__has_feature)
#define TILEGATE_FEATURE(name) __has_feature(name)
#else
#define TILEGATE_FEATURE(name) 0
#endif
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__) && !TILEGATE_FEATURE(address_sanitizer) &&      \
    !TILEGATE_FEATURE(thread_sanitizer)
#define TILEGATE_EVERY_ISA __attribute__((target_clones("avx512f", "arch=haswell", "default")))
#else
#define TILEGATE_EVERY_ISA
#endif

namespace tilegate::bench {
namespace {

constexpr int kLanes = 192;  // independent sums: 12 registers of 16 floats hide the latency
constexpr int kTries = 3;
constexpr double kLongEnough = 5e-3;                          // seconds a try must take
constexpr std::size_t kStreamBytes = std::size_t{256} << 20;  // of all threads together

TILEGATE_EVERY_ISA void multiply_add(float* sums, float a, float b, std::int64_t rounds) {
  float x[kLanes];
  for (int i = 0; i < kLanes; ++i) x[i] = sums[i];
  for (std::int64_t r = 0; r < rounds; ++r) {
    for (int i = 0; i < kLanes; ++i) x[i] = __builtin_fmaf(x[i], a, b);
  }
  for (int i = 0; i < kLanes; ++i) sums[i] = x[i];
}

TILEGATE_EVERY_ISA std::uint64_t read_stream(const std::uint64_t* data, std::size_t count) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < count; ++i) bits ^= data[i];
  return bits;
}

// Seconds for all threads to finish `work(thread)`.
template <class F>
double timed_threads(int threads, F work) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work, i);
  work(0);
  for (std::thread& thread : others) thread.join();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double fma_rate(int threads) {
  std::vector<float> sums(static_cast<std::size_t>(threads) * kLanes, 1.0f);
  std::int64_t rounds = 1000;
  double best = 0.0;
  for (int tries = 0; tries < kTries;) {
    const double seconds = timed_threads(threads, [&](int thread) {
      multiply_add(sums.data() + static_cast<std::ptrdiff_t>(thread) * kLanes, 0.999f, 0.001f,
                   rounds);
    });
    if (seconds < kLongEnough) {
      rounds *= 2;
      continue;
    }
    ++tries;
    best = std::max(best, 2.0 * kLanes * static_cast<double>(rounds) * threads / seconds);
  }
  return best;
}

double read_rate(int threads) {
  const std::size_t each = kStreamBytes / sizeof(std::uint64_t) / static_cast<std::size_t>(threads);
  std::vector<std::uint64_t> data(each * static_cast<std::size_t>(threads), 1);
  std::vector<std::uint64_t> bits(static_cast<std::size_t>(threads) * 8);  // a line each
  double best = 0.0;
  for (int i = 0; i < kTries; ++i) {
    const double seconds = timed_threads(threads, [&](int thread) {
      const auto index = static_cast<std::size_t>(thread);
      bits[index * 8] = read_stream(data.data() + index * each, each);
    });
    best = std::max(best, static_cast<double>(data.size() * sizeof data[0]) / seconds);
  }
  return best;
}

}  // namespace

Share share_of(const Ceilings& ceilings, const Cost& cost, double ms) {
  const double memory_ms = ceilings.gb_per_s > 0.0 ? cost.bytes / ceilings.gb_per_s * 1e-6 : 0.0;
  const double compute_ms =
      ceilings.tflop_per_s > 0.0 ? cost.flops / ceilings.tflop_per_s * 1e-9 : 0.0;
  const double floor_ms = std::max(memory_ms, compute_ms);
  if (floor_ms <= 0.0 || ms <= 0.0) return {};
  return {floor_ms / ms, memory_ms >= compute_ms ? "memory" : "compute"};
}

Ceilings measure_cpu_ceilings(int threads) {
  return {read_rate(threads) * 1e-9, fma_rate(threads) * 1e-12,
          fmt::format("read stream, {} threads", threads),
          fmt::format("fp32 fused multiply-adds, {} threads", threads)};
}

Ceilings measure_gpu_ceilings(const Stream& stream, Timer& timer) {
  constexpr std::size_t kBytes = std::size_t{2} << 30;
  const DeviceBuffer from = DeviceBuffer::allocate(stream.device(), kBytes).value();
  DeviceBuffer to = DeviceBuffer::allocate(stream.device(), kBytes).value();
  const Work copy = [&] { return enqueue_copy(stream, to, from, kBytes); };
  const std::vector<double> samples = timer.sample(copy, {Timing::kGraph, Cache::kWarm});
  Ceilings ceilings;
  ceilings.gb_per_s = 2.0 * static_cast<double>(kBytes) / quantiles(samples).median * 1e-6;
  ceilings.memory_from = "device copy of 2 GiB, read plus written";
  return ceilings;
}

}  // namespace tilegate::bench
