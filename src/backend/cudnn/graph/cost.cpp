// SPDX-License-Identifier: Apache-2.0
// Time is the larger of arithmetic and bytes, after the launches. Arithmetic runs in waves of
// 128-row tiles, one on an SM: a last wave that is not full costs as much as a full one.
#include "backend/cudnn/graph/cost.h"

#include <algorithm>
#include <cmath>

#include "backend/cudnn/graph/form.h"

namespace tilegate::cudnn {
namespace {

constexpr double kGraphLaunchUs = 4.0;
constexpr double kSmallKernelUs = 2.0;  // prepare, or finish
constexpr double kTileRows = 128.0;
constexpr double kSmTflops = 4.9;         // of one SM in a tile's loop, head_dim 128
constexpr double kSplitKeysShare = 0.85;  // of copy bandwidth, one row a request without bounds
constexpr double kUnsplitSmGbps = 25.0;   // one SM streaming keys, where cuDNN does not split

double compute_us(const AttentionProblem& p, const GraphSpec& spec, const DeviceFacts& facts) {
  const double row_tiles = std::ceil(static_cast<double>(spec.rows) / kTileRows);
  const double tiles = static_cast<double>(spec.batch * spec.heads_q) * row_tiles;
  const double waves = std::ceil(tiles / std::max(facts.num_sms, 1));
  const double visible = p.causal && spec.rows > 1 && spec.rows == spec.keys ? 0.5 : 1.0;
  const double tile_flops = 2.0 * kTileRows * static_cast<double>(spec.keys) *
                            static_cast<double>(spec.dim_qk + spec.dim_v) * visible;
  return waves * tile_flops / (kSmTflops * 1e6);
}

double bytes_us(const GraphSpec& spec, const DeviceFacts& facts) {
  const double keys = static_cast<double>(spec.batch) * static_cast<double>(spec.keys);
  const double bytes = keys * static_cast<double>(spec.heads_kv * (spec.dim_qk + spec.dim_v)) *
                       static_cast<double>(size_of(spec.dtype));
  const bool splits = spec.rows == 1 && spec.left_keys < 0 && spec.right_keys < 0;
  double gbps = kSplitKeysShare * facts.bandwidth_gbps;
  if (!splits) {
    const double busy =
        std::min<double>(static_cast<double>(spec.batch * spec.heads_kv), facts.num_sms);
    gbps = std::min(gbps, busy * kUnsplitSmGbps);
  }
  return bytes / (std::max(gbps, 1.0) * 1e3);
}

}  // namespace

double cost_us(const AttentionProblem& p, const DeviceFacts& facts) {
  const GraphForm form = make_form(p);
  double us = kGraphLaunchUs;
  if (form.prepares()) us += kSmallKernelUs;
  if (form.spec.lengths == Lengths::kPadded || p.lse.present()) us += kSmallKernelUs;
  const double arithmetic = form.spec.rows > 1 ? compute_us(p, form.spec, facts) : 0.0;
  return us + std::max(arithmetic, bytes_us(form.spec, facts));
}

}  // namespace tilegate::cudnn
