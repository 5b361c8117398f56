// SPDX-License-Identifier: Apache-2.0
// Paged decode on the GPU: what it serves, its cost, its schedule and its launch. How a call is
// divided: layout.h.
#include "backend/cuda/attention/decode/decode.h"

#include <algorithm>

#include "backend/cuda/attention/decode/layout.h"
#include "backend/cuda/attention/paged.h"
#include "backend/cuda/check.h"

namespace tilegate {
namespace {

using kernel::kDecodeTileKeys;

constexpr std::int64_t kMaxRowsPerRequest = 16;  // q_len
constexpr double kLog2e = 1.4426950408889634;

kernel::DecodeParams make_params(const AttentionProblem& p, const DecodeLayout& layout,
                                 std::byte* workspace) {
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
  out.window_left = static_cast<int>(std::min(p.window_left, kMaxDecodeKeys));
  out.scale_log2 = static_cast<float>(p.scale * kLog2e);
  if (p.soft_cap > 0.0f) {
    out.scale_log2 = p.scale / p.soft_cap;
    out.cap_log2 = static_cast<float>(p.soft_cap * kLog2e);
  }
  out.lse_scale = p.lse_base == LseBase::kNatural ? static_cast<float>(1.0 / kLog2e) : 1.0f;
  const bool pinned = layout.split > 0;
  out.cut = pinned ? kernel::DecodeCut::kPinned : kernel::DecodeCut::kEven;
  out.granule_tiles = pinned ? static_cast<int>(layout.split / kDecodeTileKeys) : 1;
  if (pinned) {
    out.max_granules = static_cast<int>(
        std::max<std::int64_t>((p.max_kv_len + layout.split - 1) / layout.split, 1));
  }
  out.workers = static_cast<int>(layout.workers);
  out.unit_blocks = static_cast<int>(layout.unit_blocks);
  out.partial_o = reinterpret_cast<float*>(workspace);
  out.partial_lse = reinterpret_cast<float*>(workspace + layout.lse_offset);
  out.unit_slots = reinterpret_cast<int*>(workspace + layout.units_offset);
  if (layout.merges_self) {
    out.tags = reinterpret_cast<std::uint32_t*>(workspace + layout.tags_offset);
  }
  return out;
}

DecodeGrid make_grid(const AttentionProblem& p, const DecodeLayout& layout,
                     const DeviceFacts& facts) {
  constexpr std::int64_t kMaxUnitBlocks = 65536;  // a grid that covers more units strides over them
  constexpr std::int64_t kManyParts = 6;          // of a unit: then its rows are worth a block each
  DecodeGrid grid;
  grid.blocks = static_cast<int>(layout.blocks);
  grid.overlap = facts.compute_capability >= 90;
  if (layout.slots == 0 || layout.merges_self) return grid;
  const bool pinned = layout.split > 0;
  const std::int64_t blocks = pinned ? std::min(layout.units, kMaxUnitBlocks) : layout.workers;
  grid.combine_blocks = static_cast<int>(blocks);
  const bool many = pinned ? p.max_kv_len > kManyParts * layout.split
                           : layout.workers > kManyParts * layout.units;
  if (many) grid.combine_rows = static_cast<int>(std::min<std::int64_t>(layout.block_rows, 8));
  return grid;
}

std::string cut_note(const DecodeLayout& layout) {
  if (layout.unit_blocks > 1) {
    return fmt::format("cluster of {} a unit{}", layout.unit_blocks,
                       layout.slots > 0 ? ", or keys cut evenly where lengths differ" : "");
  }
  if (layout.unit_blocks == 1) return "one block a unit, or keys cut evenly where lengths differ";
  if (layout.split == 0) {
    return layout.merges_self ? "keys cut evenly, one kernel" : "keys cut evenly";
  }
  if (layout.slots == 0) return "one split a request";
  return fmt::format("{} keys a split", layout.split);
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
  const int config = find_decode_config(*p);
  if (config < 0) return fmt::format("head_dim must be 64, 128 or 256, got {}", p->dim_qk);
  if (decode_workers_per_sm(kDecodeConfigs[config], facts) == 0) {
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
  if (p->max_kv_len > kMaxDecodeKeys) {
    return fmt::format("max_kv_len must be at most {}, got {}", kMaxDecodeKeys, p->max_kv_len);
  }
  constexpr double kMaxTiles = 2147483647.0;  // they are numbered in 32 bits
  const double tiles = decode_tiles(*p, kDecodeConfigs[config]);
  if (tiles > kMaxTiles) {
    return fmt::format("batch * heads * max_kv_len must be at most {} tiles of {} keys, got {}",
                       kMaxTiles, kDecodeTileKeys, tiles);
  }
  return layout_rejection(*p);
}

double decode_cost_us(const Operation& op, const DeviceFacts& facts) {
  return decode_layout(std::get<AttentionProblem>(op), facts).us;
}

Schedule decode_schedule(const Operation& op, const DeviceFacts& facts) {
  const auto& p = std::get<AttentionProblem>(op);
  const DecodeLayout layout = decode_layout(p, facts);
  Schedule schedule;
  schedule.config = find_decode_config(p);
  schedule.kv_split = layout.split;
  schedule.workspace_bytes = layout.bytes;
  schedule.pinned_bits = layout.split > 0;
  const DecodeConfig& config = kDecodeConfigs[schedule.config];
  schedule.note =
      fmt::format("{} blocks, {} stages of {} keys, {} rows together; {}", layout.blocks,
                  config.stages, kDecodeTileKeys, config.rows, cut_note(layout));
  return schedule;
}

Status decode_launch(const Launch& launch) {
  const auto& p = std::get<AttentionProblem>(launch.call);
  if (p.batch == 0) return {};
  TILEGATE_RETURN_IF_ERROR(check_alignment("k_cache", p.k, 16));
  TILEGATE_RETURN_IF_ERROR(check_alignment("v_cache", p.v, 16));
  TILEGATE_RETURN_IF_ERROR(check_alignment("q", p.q, 4));
  TILEGATE_RETURN_IF_ERROR(check_alignment("o", p.o, 4));
  const DecodeConfig& config = kDecodeConfigs[launch.schedule.config];
  const DecodeLayout layout = decode_layout(p, launch.facts);
  const kernel::DecodeParams params = make_params(p, layout, launch.workspace);
  const DecodeGrid grid = make_grid(p, layout, launch.facts);
  const DecodeLaunch enqueue = layout.unit_blocks > 0 ? config.launch_unit : config.launch;
  return cuda_status(enqueue(params, grid, static_cast<cudaStream_t>(launch.stream)),
                     "launching cuda.decode");
}

}  // namespace tilegate
