// SPDX-License-Identifier: Apache-2.0
// Samples through Recording and measure_ms. A flush is put on the stream just before the first
// event, so on a GPU it also hides the time a launch takes on the host.
#include "bench/measure/timing.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace tilegate::bench {

std::string_view to_string(Timing timing) {
  switch (timing) {
    case Timing::kGraph:
      return "graph";
    case Timing::kEager:
      return "eager";
    case Timing::kWall:
      return "wall";
  }
  return "unknown";
}

std::string_view to_string(Cache cache) { return cache == Cache::kWarm ? "warm" : "cold"; }

std::string timing_scope(const std::vector<Scope>& scopes) {
  const auto uses = [&](auto member, auto value) {
    return std::any_of(scopes.begin(), scopes.end(),
                       [&](const Scope& scope) { return scope.*member == value; });
  };
  std::string text;
  const auto say = [&](const char* sentence) {
    text += (text.empty() ? "" : "; ") + std::string(sentence);
  };
  if (uses(&Scope::timing, Timing::kGraph)) {
    say("graph: CUDA events around a replayed graph of 10 calls (cold: of 1), per call");
  }
  if (uses(&Scope::timing, Timing::kEager)) say("eager: CUDA events around one call");
  if (uses(&Scope::timing, Timing::kWall)) say("wall: the host's steady clock around one call");
  if (uses(&Scope::cache, Cache::kWarm)) say("warm: calls repeat on the same tensors");
  if (uses(&Scope::cache, Cache::kCold)) say("cold: a 256 MiB buffer is read before each call");
  say("plans, workspace, offsets and tables are prepared outside the timed region");
  return text;
}

Quantiles quantiles(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const auto last = static_cast<double>(samples.size() - 1);
  const auto at = [&](double q) {
    return samples[static_cast<std::size_t>(std::lround(last * q))];
  };
  const std::size_t middle = samples.size() / 2;
  const double median =
      samples.size() % 2 == 1 ? samples[middle] : (samples[middle - 1] + samples[middle]) / 2.0;
  return {at(0.2), median, at(0.8)};
}

double Timer::once(const Work& call, Cache cache) {
  if (stop_) throw Interrupted{};
  if (cache == Cache::kCold) enqueue_read(stream_, *flush_).throw_if_error();
  return measure_ms(stream_, call).value();
}

std::vector<double> Timer::sample(const Work& call, Scope scope) {
  const bool cold = scope.cache == Cache::kCold;
  if (cold && !flush_) {
    flush_.emplace(DeviceBuffer::allocate(stream_.device(), kFlushBytes).value());
    flush_->fill(1).throw_if_error();
  }
  // One call outside a recording first: libraries load kernels and make plans then.
  measure_ms(stream_, call).value();
  const bool graph = scope.timing == Timing::kGraph;
  const int calls = graph && !cold ? kCallsPerGraph : 1;
  std::optional<Recording> recording;
  if (graph) {
    recording.emplace(Recording::capture(stream_, [&] {
                        Status status;
                        for (int i = 0; i < calls && status.ok(); ++i) status = call();
                        return status;
                      }).value());
  }
  const Work timed = graph ? Work([&] { return recording->replay(stream_); }) : call;
  const auto start = std::chrono::steady_clock::now();
  const auto over = [&](double share) {
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    return counts_.seconds > 0.0 && taken.count() > share * counts_.seconds;
  };
  for (int i = 0; i < counts_.warmups && (i == 0 || !over(1.0 / 3.0)); ++i) {
    once(timed, scope.cache);
  }
  std::vector<double> samples;
  for (int i = 0; i < counts_.repeats && (i < kFewestSamples || !over(1.0)); ++i) {
    samples.push_back(once(timed, scope.cache) / calls);
  }
  return samples;
}

}  // namespace tilegate::bench
