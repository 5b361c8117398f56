// SPDX-License-Identifier: Apache-2.0
// Calibrated on one NVIDIA H200 with cuDNN 9.19 (docs/design/cudnn.md has the times). Arithmetic
// runs in waves of 128-row tiles, one on an SM, and a wave that is not full costs as much as a full
// one; power caps long runs of full waves. Keys of one row a request stream at copy bandwidth, cut
// over all SMs, as long as no bound and no sink keeps cuDNN from cutting them.
#include "backend/cudnn/graph/cost.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "backend/cudnn/graph/form.h"
#include "problem/attention_keys.h"

namespace tilegate::cudnn {
namespace {

constexpr double kTileRows = 128.0;
constexpr double kGraphUs = 3.0;           // of a dense call before its first tile
constexpr double kSmallKernelUs = 2.5;     // prepare, or finish
constexpr double kTileTflops = 5.4;        // of one SM
constexpr double kSustainedTflops = 4.65;  // of one SM, all of them busy for long
constexpr double kPaddedShare = 0.86;      // of the rate, when lengths come from the device
constexpr double kSlowShare = 0.37;        // of the rate, in the engines that paged graphs may use
constexpr double kDiagonalKeys = 256.0;    // keys a causal tile visits beyond its half
constexpr double kStreamShare = 0.985;     // of copy bandwidth
constexpr double kWindowShare = 0.7;       // of copy bandwidth, one row with a window
constexpr double kCalibratedGbps = 4278.0;

// Whole calls of one row a request, by the bytes of their keys and values: means over the shapes of
// docs/results/cudnn_h200.md that have so many.
struct Point {
  double bytes;
  double us;
};
constexpr Point kOneRow[] = {
    {33.5e6, 16.7}, {268.4e6, 72.5}, {536.9e6, 135.6}, {1073.7e6, 256.1}, {2147.5e6, 506.0}};

// Keys of a request that are visited, over all its rows.
double visited_keys(const GraphSpec& spec) {
  const auto keys = static_cast<double>(spec.keys);
  const auto rows = static_cast<double>(spec.rows);
  double visited = keys;
  if (spec.right_keys == 0 && spec.rows > 1) visited = keys - rows / 2.0 + kDiagonalKeys / 2.0;
  if (spec.left_keys >= 0) {
    const double band =
        static_cast<double>(spec.left_keys + std::max<std::int64_t>(spec.right_keys, 0));
    visited = std::min(visited, band + (spec.rows > 1 ? kTileRows : 0.0));
  }
  return std::min(visited, keys);
}

double compute_us(const GraphSpec& spec, const DeviceFacts& facts) {
  const double sms = std::max(facts.num_sms, 1);
  const double row_tiles = std::ceil(static_cast<double>(spec.rows) / kTileRows);
  const double tiles = static_cast<double>(spec.batch * spec.heads_q) * row_tiles;
  const double tile_flops =
      2.0 * kTileRows * visited_keys(spec) * static_cast<double>(spec.dim_qk + spec.dim_v);
  double share = spec.lengths == Lengths::kPadded ? kPaddedShare : 1.0;
  if (spec.page_size > 0 || spec.has_sinks) share = kSlowShare;
  const double by_waves = std::ceil(tiles / sms) * tile_flops / (kTileTflops * 1e6);
  const double sustained = tiles / sms * tile_flops / (kSustainedTflops * 1e6);
  return std::max(by_waves, sustained) / share;
}

double key_bytes(const GraphSpec& spec) {
  return static_cast<double>(spec.batch) * visited_keys(spec) *
         static_cast<double>(spec.heads_kv * (spec.dim_qk + spec.dim_v) * size_of(spec.dtype));
}

double copy_us(const GraphForm& form, const DeviceFacts& facts) {
  if (form.copied_rows == 0) return 0.0;
  return kSmallKernelUs + 2.0 * key_bytes(form.spec) / (facts.bandwidth_gbps * 1e3);
}

// Between the points, and on their first and last slopes outside.
double one_row_us(double bytes) {
  const Point* high = kOneRow + 1;
  while (high + 1 != std::end(kOneRow) && high->bytes < bytes) ++high;
  const Point* low = high - 1;
  return low->us + (bytes - low->bytes) * (high->us - low->us) / (high->bytes - low->bytes);
}

}  // namespace

double cost_us(const AttentionProblem& p, const DeviceFacts& facts) {
  GraphForm form = make_form(p, facts);
  GraphSpec& spec = form.spec;
  // The mean, where a page table has room for no more.
  const std::int64_t batch = std::max<std::int64_t>(p.batch, 1);
  spec.keys = std::min(spec.keys, (most_keys(p, spec.keys) + batch - 1) / batch);
  const double gbps = std::max(facts.bandwidth_gbps, 1.0);
  if (spec.rows == 1 && spec.left_keys < 0) {
    return one_row_us(key_bytes(spec)) * kCalibratedGbps / gbps;
  }
  double us = kGraphUs + copy_us(form, facts);
  if (form.prepares()) us += kSmallKernelUs;
  if (spec.lengths == Lengths::kPadded || p.lse.present()) us += kSmallKernelUs;
  const double share = spec.rows == 1 ? kWindowShare : kStreamShare;
  const double stream = key_bytes(spec) / (share * gbps * 1e3);
  return us + (spec.rows == 1 ? stream : std::max(stream, compute_us(spec, facts)));
}

}  // namespace tilegate::cudnn
