// SPDX-License-Identifier: Apache-2.0
// How a call is timed. Graph: a recording is replayed between two events; warm recordings hold ten
// calls and a sample is a tenth of the replay. Eager: one call between two events. On the CPU:
// the wall clock around one call. Cold: before each sample a buffer larger than most caches is
// read (written, it would leave lines whose way to memory the sample pays for), and the sample is
// one call. A limit of seconds makes long calls take fewer samples.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tilegate/device_timing.h"

namespace tilegate::bench {

enum class Timing : std::uint8_t { kGraph, kEager, kWall };
enum class Cache : std::uint8_t { kWarm, kCold };

struct Scope {
  Timing timing = Timing::kWall;
  Cache cache = Cache::kWarm;
};

inline constexpr int kCallsPerGraph = 10;
inline constexpr int kFewestSamples = 3;  // whatever the limit of seconds
inline constexpr std::size_t kFlushBytes = std::size_t{256} << 20;

std::string_view to_string(Timing timing);
std::string_view to_string(Cache cache);
// The sentences above for the scopes of a run.
std::string timing_scope(const std::vector<Scope>& scopes);

struct Quantiles {
  double p20 = 0.0;
  double median = 0.0;
  double p80 = 0.0;
};

// Samples must not be empty. The median of an even number is the mean of the middle two.
Quantiles quantiles(std::vector<double> samples);

struct Interrupted {};  // thrown between samples once the stop flag is set

class Timer {
 public:
  struct Counts {
    int warmups = 20;
    int repeats = 100;
    double seconds = 0.0;  // that warm-ups (a third of it) and samples of a scope take; 0: no limit
  };

  // `stop` may be set by a signal handler.
  Timer(const Stream& stream, Counts counts, const std::atomic<bool>& stop)
      : stream_(stream), counts_(counts), stop_(stop) {}

  // Milliseconds a call, one entry a repeat. Throws tilegate::Error and Interrupted.
  std::vector<double> sample(const Work& call, Scope scope);

 private:
  double once(const Work& call, Cache cache);

  const Stream& stream_;
  Counts counts_;
  const std::atomic<bool>& stop_;
  std::optional<DeviceBuffer> flush_;
};

}  // namespace tilegate::bench
