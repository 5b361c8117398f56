// SPDX-License-Identifier: Apache-2.0
// The division of a paged decode call.
//
// Pinned: keys are cut at multiples of a number from each request's key 0, where bits must not
// depend on the batch. Even: all KV tiles in one line, in equal ranges. Units: as even, in a kernel
// that on the device gives each unit a cluster instead when no request is much longer than others.
// The last is faster for few units up to some number of keys; the estimates below tell which.
#include "backend/cuda/attention/decode/layout.h"

#include <algorithm>
#include <iterator>

#include "problem/attention_keys.h"

namespace tilegate {
namespace {

using kernel::kDecodeTileKeys;

constexpr std::int64_t kPinnedSplitKeys = 512;  // batch_invariant
constexpr std::size_t kTagBytes = 16;
constexpr int kReservedBytes = 1024;  // of shared memory, which the system takes for each block

std::int64_t round_up(std::int64_t x, std::int64_t step) { return (x + step - 1) / step * step; }

std::size_t aligned(std::size_t bytes) {
  constexpr std::size_t kAlignment = 256;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

bool wants_pinned(const AttentionProblem& p) {
  return p.batch_invariant || p.fixed_split_size > 0 || p.disable_split_kv;
}

// Keys a pinned split; 0: the even cut.
std::int64_t pinned_split(const AttentionProblem& p) {
  if (p.disable_split_kv || p.max_kv_len <= kDecodeTileKeys) return kMaxDecodeKeys;
  if (p.fixed_split_size > 0) {
    return std::min(round_up(p.fixed_split_size, kDecodeTileKeys), kMaxDecodeKeys);
  }
  return p.batch_invariant ? kPinnedSplitKeys : 0;
}

std::int64_t row_blocks(const AttentionProblem& p, const DecodeConfig& config) {
  return (decode_rows(p) + config.rows - 1) / config.rows;
}

// Keys of a request that some row may see, at most.
std::int64_t visible_keys(const AttentionProblem& p) {
  if (p.window_left < 0) return p.max_kv_len;
  return std::min(p.max_kv_len, std::min(p.window_left, p.max_kv_len) + p.uniform_qo_len);
}

double key_bytes(const AttentionProblem& p) {
  const std::int64_t row = p.heads_kv * p.dim_qk * 2 * size_of(p.dtype);
  return static_cast<double>(most_keys(p, visible_keys(p))) * static_cast<double>(row);
}

// Kernels that only read are a little faster than copies.
double bytes_per_us(const DeviceFacts& facts) {
  constexpr double kReadShare = 1.03;
  return kReadShare * std::max(facts.bandwidth_gbps, 1.0) * 1e3;
}

// Measured on H200 (docs/design/decode.md): the fixed part grows with the parts of a unit, and with
// the units that a worker starts and ends.
double split_us(const AttentionProblem& p, const DecodeLayout& layout, const DeviceFacts& facts) {
  constexpr double kFixedUs = 6.5;
  constexpr double kPartUs = 0.046;
  constexpr double kUnitUs = 0.6;
  const std::int64_t tiles =
      p.heads_kv * layout.row_blocks * most_pieces(p, visible_keys(p), kDecodeTileKeys);
  const double busy = static_cast<double>(std::clamp<std::int64_t>(tiles, 1, layout.workers));
  const double parts = busy / static_cast<double>(layout.units);
  return kFixedUs + kPartUs * parts + kUnitUs / parts + key_bytes(p) / bytes_per_us(facts);
}

// The same of units in clusters: an SM reads so much, and clusters of 4 and more do not reach the
// whole bandwidth.
double unit_us(const AttentionProblem& p, const DecodeLayout& layout, const DeviceFacts& facts) {
  constexpr double kFixedUs = 4.8;
  constexpr double kSmBytesPerUs = 100e3;
  constexpr double kLargeClusterShare = 0.78;
  const double share = layout.unit_blocks >= 4 ? kLargeClusterShare : 1.0;
  const double sms = static_cast<double>(layout.units * layout.unit_blocks);
  return kFixedUs + key_bytes(p) / std::min(sms * kSmBytesPerUs, share * bytes_per_us(facts));
}

// Clusters of `size` blocks that are on the device at once, at most: those of 4 and 8 do not fill
// every group of SMs.
std::int64_t clusters_at_once(std::int64_t size, const DeviceFacts& facts) {
  const std::int64_t sms = facts.num_sms;
  return (size >= 4 ? sms * 10 / 11 : sms) / size;
}

// Blocks of a cluster for each unit; 0: the kernel does not serve the problem or is not built.
std::int64_t unit_blocks(const AttentionProblem& p, const DecodeConfig& config, std::int64_t units,
                         const DeviceFacts& facts) {
  constexpr std::int64_t kWarpKeys = kDecodeTileKeys / kernel::kDecodeWarps;
  constexpr std::int64_t kMaxBlocks = 8;
  if (config.launch_unit == nullptr || facts.compute_capability < 90) return 0;
  if (config.unit_shared_bytes() + kReservedBytes > shared_bytes_per_sm(facts.compute_capability)) {
    return 0;
  }
  if (p.page_size % kWarpKeys != 0 || decode_rows(p) > config.rows || wants_pinned(p)) return 0;
  std::int64_t size = kMaxBlocks;
  while (size > 0 && units > clusters_at_once(size, facts)) size /= 2;
  return size;
}

void place_workspace(const AttentionProblem& p, DecodeLayout& layout) {
  if (layout.slots == 0) return;
  const std::size_t rows = static_cast<std::size_t>(layout.slots * layout.block_rows);
  layout.lse_offset = aligned(rows * static_cast<std::size_t>(p.dim_v) * sizeof(float));
  layout.tags_offset = aligned(layout.lse_offset + rows * sizeof(float));
  layout.units_offset = layout.tags_offset;
  if (layout.merges_self)
    layout.units_offset += static_cast<std::size_t>(layout.workers) * kTagBytes;
  layout.bytes = layout.units_offset;
  if (layout.split > 0) layout.bytes += static_cast<std::size_t>(layout.units) * sizeof(int);
}

// The layout with units in clusters, if they are built and serve p.
DecodeLayout unit_layout(const AttentionProblem& p, DecodeLayout layout, const DecodeConfig& config,
                         const DeviceFacts& facts) {
  layout.unit_blocks = unit_blocks(p, config, layout.units, facts);
  if (layout.unit_blocks == 0) return layout;
  layout.split = 0;
  layout.blocks = layout.units * layout.unit_blocks;
  // A request alone is never longer than others.
  if (p.batch > 1) {
    layout.blocks = clusters_at_once(layout.unit_blocks, facts) * layout.unit_blocks;
    layout.workers = 2 * layout.blocks;
    layout.slots = 2 * layout.workers;
    layout.merges_self = true;
  }
  layout.us = unit_us(p, layout, facts);
  return layout;
}

}  // namespace

int shared_bytes_per_sm(int compute_capability) {
  switch (compute_capability) {
    case 80:
    case 87:
      return 164 * 1024;
    case 86:
    case 89:
    case 120:
    case 121:
      return 100 * 1024;
    default:
      return 228 * 1024;
  }
}

int decode_workers_per_sm(const DecodeConfig& config, const DeviceFacts& facts) {
  return shared_bytes_per_sm(facts.compute_capability) / (config.shared_bytes() + kReservedBytes);
}

int find_decode_config(const AttentionProblem& p) {
  int best = -1;
  for (int i = 0; i < static_cast<int>(std::size(kDecodeConfigs)); ++i) {
    const DecodeConfig& config = kDecodeConfigs[i];
    if (config.dtype != p.dtype || config.head_dim != p.dim_qk) continue;
    // They stand in rising order of rows.
    if (best < 0 || kDecodeConfigs[best].rows < decode_rows(p)) best = i;
  }
  return best;
}

double decode_tiles(const AttentionProblem& p, const DecodeConfig& config) {
  return static_cast<double>(p.heads_kv * row_blocks(p, config)) *
         static_cast<double>(most_pieces(p, p.max_kv_len, kDecodeTileKeys));
}

DecodeLayout decode_layout(const AttentionProblem& p, const DeviceFacts& facts) {
  const DecodeConfig& config = kDecodeConfigs[find_decode_config(p)];
  const std::int64_t rows = decode_rows(p);
  DecodeLayout layout;
  layout.split = pinned_split(p);
  layout.row_blocks = row_blocks(p, config);
  layout.block_rows = std::min<std::int64_t>(rows, config.rows);
  layout.units = std::max<std::int64_t>(p.batch * p.heads_kv * layout.row_blocks, 1);
  layout.workers = std::int64_t{facts.num_sms} * decode_workers_per_sm(config, facts);
  layout.blocks = layout.workers;
  layout.us = split_us(p, layout, facts);
  DecodeLayout units = unit_layout(p, layout, config, facts);
  if (units.unit_blocks > 0 && units.us <= layout.us) {
    place_workspace(p, units);
    return units;
  }
  if (layout.split == 0) {
    layout.slots = 2 * layout.workers;
    // With many parts a unit, blocks of their own merge them faster than the last of its workers.
    layout.merges_self = layout.units >= facts.num_sms;
  } else if (layout.split < p.max_kv_len) {
    layout.slots = p.heads_kv * layout.row_blocks * most_pieces(p, p.max_kv_len, layout.split);
  }
  place_workspace(p, layout);
  return layout;
}

}  // namespace tilegate
