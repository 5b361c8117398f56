// SPDX-License-Identifier: Apache-2.0
// Paged decode on the GPU: what it serves, its cost, its split of the keys and its launch.
//
// By default all KV tiles are cut into equal ranges for the blocks that fit on the device at once
// (bits then depend on the batch). A split pinned by token position is used when bits must not:
// fixed_split_size, batch_invariant, or no split at all.
#include "backend/cuda/attention/decode.h"

#include <algorithm>
#include <cmath>

#include "backend/cuda/attention/decode_config.h"
#include "backend/cuda/attention/paged.h"
#include "backend/cuda/check.h"

namespace tilegate {
namespace {

using kernel::kDecodeTileKeys;
using kernel::kDecodeTileRows;

constexpr std::int64_t kMaxRowsPerRequest = 16;           // q_len
constexpr std::int64_t kPinnedSplitKeys = 512;            // batch_invariant
constexpr std::int64_t kMaxKeys = std::int64_t{1} << 30;  // key numbers are 32-bit on the device
constexpr double kLog2e = 1.4426950408889634;
constexpr double kLaunchUs = 5.0;  // decode and combine, without any key

int shared_bytes_per_sm(int compute_capability) {
  switch (compute_capability) {
    case 80:
      return 164 * 1024;
    case 86:
    case 89:
    case 120:
    case 121:
      return 100 * 1024;
    case 87:
      return 164 * 1024;
    default:
      return 228 * 1024;
  }
}

// Blocks of a configuration that fit on an SM; each also costs the system's 1 KB.
int blocks_per_sm(const DecodeConfig& config, const DeviceFacts& facts) {
  constexpr int kReserved = 1024;
  return shared_bytes_per_sm(facts.compute_capability) / (config.shared_bytes() + kReserved);
}

std::int64_t rows_per_unit(const AttentionProblem& p) { return p.uniform_qo_len * p.group_size(); }

// The built configuration for the problem: the fewest rows that hold all, else the most. -1: none.
int find_config(const AttentionProblem& p) {
  int best = -1;
  for (int i = 0; i < static_cast<int>(std::size(kDecodeConfigs)); ++i) {
    const DecodeConfig& config = kDecodeConfigs[i];
    if (config.dtype != p.dtype || config.head_dim != p.dim_qk) continue;
    // They stand in rising order of rows.
    if (best < 0 || kDecodeConfigs[best].rows < rows_per_unit(p)) best = i;
  }
  return best;
}

// Keys a pinned split; 0: the even cut.
std::int64_t pinned_split(const AttentionProblem& p) {
  const auto whole_tiles = [](std::int64_t keys) {
    return (keys + kDecodeTileKeys - 1) / kDecodeTileKeys * kDecodeTileKeys;
  };
  if (p.disable_split_kv || p.max_kv_len <= kDecodeTileKeys) return kMaxKeys;
  if (p.fixed_split_size > 0) return std::min(whole_tiles(p.fixed_split_size), kMaxKeys);
  return p.batch_invariant ? kPinnedSplitKeys : 0;
}

std::int64_t units_of(const AttentionProblem& p, std::int64_t row_blocks) {
  return p.batch * p.heads_kv * row_blocks;
}

struct Layout {
  std::int64_t workers = 1;
  std::int64_t row_blocks = 1;
  std::int64_t block_rows = 1;
  std::int64_t slots = 0;  // partial results
  std::size_t lse_offset = 0;
  std::size_t units_offset = 0;
  std::size_t bytes = 0;
};

// Splits of all requests together, at most.
std::int64_t max_splits(const AttentionProblem& p, std::int64_t split) {
  const std::int64_t by_length = p.batch * ((p.max_kv_len + split - 1) / split);
  if (!p.kv_indices.present()) return by_length;
  const std::int64_t keys = p.kv_indices.shape[0] * p.page_size;
  return std::min(by_length, keys / split + p.batch);
}

Layout layout_of(const AttentionProblem& p, const DecodeConfig& config, std::int64_t split,
                 const DeviceFacts& facts) {
  constexpr std::size_t kAlignment = 256;
  Layout layout;
  const std::int64_t rows = rows_per_unit(p);
  const std::int64_t capacity = config.rows;
  layout.row_blocks = (rows + capacity - 1) / capacity;
  layout.block_rows = std::min(rows, capacity);
  layout.workers = std::int64_t{facts.num_sms} * blocks_per_sm(config, facts);
  layout.slots = 2 * layout.workers;
  if (split > 0) layout.slots = p.heads_kv * layout.row_blocks * max_splits(p, split);
  if (split >= p.max_kv_len) layout.slots = 0;
  const std::size_t rows_total = static_cast<std::size_t>(layout.slots * layout.block_rows);
  layout.lse_offset = rows_total * static_cast<std::size_t>(p.dim_v) * sizeof(float);
  layout.lse_offset = (layout.lse_offset + kAlignment - 1) / kAlignment * kAlignment;
  layout.units_offset = layout.lse_offset + rows_total * sizeof(float);
  layout.bytes = layout.units_offset;
  if (layout.slots == 0) layout.bytes = 0;
  if (layout.slots > 0 && split > 0) {
    layout.bytes += static_cast<std::size_t>(units_of(p, layout.row_blocks)) * sizeof(int);
  }
  return layout;
}

kernel::DecodeParams make_params(const AttentionProblem& p, const Layout& layout,
                                 std::int64_t split) {
  kernel::DecodeParams out;
  out.q = p.q.data, out.k = p.k.data, out.v = p.v.data, out.o = p.o.data;
  out.q_batch = p.q.strides[0], out.q_row = p.q.strides[1], out.q_head = p.q.strides[2];
  out.o_batch = p.o.strides[0], out.o_row = p.o.strides[1], out.o_head = p.o.strides[2];
  if (p.lse.present()) {
    out.lse = static_cast<float*>(p.lse.data);
    out.lse_batch = p.lse.strides[0];
    out.lse_row = p.lse.strides[1];
    out.lse_head = p.lse.strides[2];
  }
  if (p.sinks.present()) {
    out.sinks = static_cast<const float*>(p.sinks.data);
    out.sink_stride = p.sinks.strides[0];
  }
  out.k_page = p.k.strides[0], out.k_slot = stride_of(p.k, 1), out.k_head = stride_of(p.k, 2);
  out.v_page = p.v.strides[0], out.v_slot = stride_of(p.v, 1), out.v_head = stride_of(p.v, 2);
  out.table = page_table_params(p);
  constexpr std::int64_t kWarpKeys = kDecodeTileKeys / kernel::kDecodeWarps;
  out.keys_share_page = p.page_size % kWarpKeys == 0 ? 1 : 0;
  out.batch = static_cast<int>(p.batch);
  out.heads_kv = static_cast<int>(p.heads_kv);
  out.group = static_cast<int>(p.group_size());
  out.q_len = static_cast<int>(p.uniform_qo_len);
  out.row_blocks = static_cast<int>(layout.row_blocks);
  out.block_rows = static_cast<int>(layout.block_rows);
  out.window_left = static_cast<int>(std::min(p.window_left, kMaxKeys));
  out.scale_log2 = static_cast<float>(p.scale * kLog2e);
  if (p.soft_cap > 0.0f) {
    out.scale_log2 = p.scale / p.soft_cap;
    out.cap_log2 = static_cast<float>(p.soft_cap * kLog2e);
  }
  out.lse_scale = p.lse_base == LseBase::kNatural ? static_cast<float>(1.0 / kLog2e) : 1.0f;
  out.cut = split > 0 ? kernel::DecodeCut::kPinned : kernel::DecodeCut::kEven;
  out.granule_tiles = split > 0 ? static_cast<int>(split / kDecodeTileKeys) : 1;
  out.workers = static_cast<int>(layout.workers);
  out.slots = layout.slots;
  return out;
}

std::optional<std::string> layout_rejection(const AttentionProblem& p) {
  constexpr std::int64_t kCopyElements = 8;  // 16 bytes
  if (auto reason = stride_rejection("k_cache", p.k, kCopyElements)) return reason;
  if (auto reason = stride_rejection("v_cache", p.v, kCopyElements)) return reason;
  if (auto reason = stride_rejection("q", p.q, 2)) return reason;
  if (auto reason = stride_rejection("o", p.o, 2)) return reason;
  return page_table_rejection(p);
}

}  // namespace

std::optional<std::string> decode_reject(const Operation& op, const DeviceFacts& facts) {
  const auto* p = std::get_if<AttentionProblem>(&op);
  if (p == nullptr) return std::string(kOtherOperation);
  if (p->op != AttentionOp::kDecodePaged) return "it serves batch_decode_paged";
  if (p->dtype == DType::kFloat32) return "q must be float16 or bfloat16, got float32";
  if (p->dim_qk != p->dim_v) {
    return fmt::format("head_dim must be equal for k and v, got {} and {}", p->dim_qk, p->dim_v);
  }
  const int config = find_config(*p);
  if (config < 0) return fmt::format("head_dim must be 64, 128 or 256, got {}", p->dim_qk);
  if (blocks_per_sm(kDecodeConfigs[config], facts) == 0) {
    return fmt::format("the GPU must have {} bytes of shared memory an SM, got {}",
                       kDecodeConfigs[config].shared_bytes(),
                       shared_bytes_per_sm(facts.compute_capability));
  }
  if (p->uniform_qo_len < 1 || p->uniform_qo_len > kMaxRowsPerRequest) {
    return fmt::format("q_len_per_req must be 1..{}, got {}", kMaxRowsPerRequest,
                       p->uniform_qo_len);
  }
  if (p->custom_mask.present() || p->packed_custom_mask.present()) {
    return "a custom mask is not served";
  }
  if (p->max_kv_len > kMaxKeys) {
    return fmt::format("max_kv_len must be at most {}, got {}", kMaxKeys, p->max_kv_len);
  }
  constexpr double kMaxTiles = 2147483647.0;  // they are numbered in 32 bits
  const double row_blocks = std::ceil(static_cast<double>(rows_per_unit(*p)) / kDecodeTileRows);
  const double request_tiles =
      std::ceil(static_cast<double>(p->max_kv_len) / kDecodeTileKeys) + 1.0;
  const double tiles = static_cast<double>(p->batch * p->heads_kv) * row_blocks * request_tiles;
  if (tiles > kMaxTiles) {
    return fmt::format("batch * heads * max_kv_len must be at most {} tiles of {} keys, got {}",
                       kMaxTiles, kDecodeTileKeys, tiles);
  }
  return layout_rejection(*p);
}

double decode_cost_us(const Operation& op, const DeviceFacts& facts) {
  const auto& p = std::get<AttentionProblem>(op);
  const double keys = static_cast<double>(p.batch) * static_cast<double>(p.max_kv_len);
  const double bytes = 2.0 * keys * static_cast<double>(p.heads_kv * p.dim_qk * size_of(p.dtype));
  return kLaunchUs + bytes / (facts.bandwidth_gbps * 1e3);
}

Schedule decode_schedule(const Operation& op, const DeviceFacts& facts) {
  const auto& p = std::get<AttentionProblem>(op);
  Schedule schedule;
  schedule.config = find_config(p);
  schedule.kv_split = pinned_split(p);
  const DecodeConfig& config = kDecodeConfigs[schedule.config];
  const Layout layout = layout_of(p, config, schedule.kv_split, facts);
  schedule.workspace_bytes = layout.bytes;
  schedule.pinned_bits = schedule.kv_split > 0;
  const std::string cut = schedule.kv_split == 0 ? std::string("keys cut evenly")
                          : layout.slots == 0    ? std::string("one split a request")
                                              : fmt::format("{} keys a split", schedule.kv_split);
  schedule.note = fmt::format("{} blocks, {} stages of {} keys, {} rows together; {}",
                              layout.workers, config.stages, kDecodeTileKeys, config.rows, cut);
  return schedule;
}

Status decode_launch(const Launch& launch) {
  constexpr std::int64_t kMaxUnitBlocks = 65536;  // a grid that covers more units strides over them
  const auto& p = std::get<AttentionProblem>(launch.call);
  if (p.batch == 0) return {};
  TILEGATE_RETURN_IF_ERROR(check_alignment("k_cache", p.k, 16));
  TILEGATE_RETURN_IF_ERROR(check_alignment("v_cache", p.v, 16));
  TILEGATE_RETURN_IF_ERROR(check_alignment("q", p.q, 4));
  TILEGATE_RETURN_IF_ERROR(check_alignment("o", p.o, 4));
  const DecodeConfig& config = kDecodeConfigs[launch.schedule.config];
  const std::int64_t split = launch.schedule.kv_split;
  const Layout layout = layout_of(p, config, split, launch.facts);
  kernel::DecodeParams params = make_params(p, layout, split);
  params.partial_o = reinterpret_cast<float*>(launch.workspace);
  params.partial_lse = reinterpret_cast<float*>(launch.workspace + layout.lse_offset);
  params.unit_slots = reinterpret_cast<int*>(launch.workspace + layout.units_offset);

  DecodeGrid grid;
  const std::int64_t units = units_of(p, layout.row_blocks);
  const std::int64_t blocks = split > 0 ? std::min(units, kMaxUnitBlocks) : layout.workers;
  if (layout.slots > 0) grid.combine_blocks = static_cast<int>(blocks);
  // Workers a unit: with many, a unit has many parts, and its rows are worth a block each.
  constexpr std::int64_t kManyParts = 6;
  const bool many =
      split > 0 ? p.max_kv_len > kManyParts * split : layout.workers > kManyParts * units;
  if (many) grid.combine_rows = static_cast<int>(std::min<std::int64_t>(layout.block_rows, 8));
  grid.overlap = launch.facts.compute_capability >= 90;
  return cuda_status(config.launch(params, grid, static_cast<cudaStream_t>(launch.stream)),
                     "launching cuda.decode");
}

}  // namespace tilegate
