// SPDX-License-Identifier: Apache-2.0
// Launch of cpu.flash: cuts the call into items and hands them to the thread pool.
//
// An item (job.h) walks all splits of its rows or, when states fit the workspace, one of them; a
// second pass then folds the states in order of position. Both ways run the same arithmetic in the
// same order, so neither threads nor capacity show in the bits.
#include "backend/cpu/attention/launch.h"

#include <algorithm>

#include "backend/cpu/attention/plan.h"
#include "problem/lengths.h"

namespace tilegate::cpu {
namespace {

// Prefix sums over the requests, [batch + 1] each.
struct FlashIndex {
  std::int64_t* tiles = nullptr;  // row tiles
  std::int64_t* parts = nullptr;  // row tiles times splits
  std::int64_t* mask = nullptr;   // bytes of custom masks
};

class FlashRun {
 public:
  explicit FlashRun(const Launch& launch);
  void walk_all(ThreadPool& pool);

 private:
  FlashItem find_item(std::int64_t tile, std::int64_t request) const;
  FlashState part_state(std::int64_t part) const;
  FlashScratch worker_scratch(int worker) const;
  std::int64_t head_blocks() const {
    return (problem_.heads_kv + plan_.item_heads - 1) / plan_.item_heads;
  }
  void set_heads(std::int64_t block, FlashItem* item) const;
  void store_heads(FlashItem item, const FlashState& state) const;
  void walk_in_order(ThreadPool& pool);
  void walk_parts(ThreadPool& pool);
  void fold_parts(ThreadPool& pool);
  std::int64_t request_of(const std::int64_t* prefix, std::int64_t value) const {
    return std::upper_bound(prefix, prefix + problem_.batch + 1, value) - prefix - 1;
  }

  const AttentionProblem& problem_;
  FlashPlan plan_;
  FlashJob job_;
  FlashIndex index_;
  std::byte* scratch_ = nullptr;
  std::byte* parts_ = nullptr;
};

FlashRun::FlashRun(const Launch& launch)
    : problem_(std::get<AttentionProblem>(launch.call)),
      plan_(plan_flash(problem_, launch.facts.num_threads)),
      job_{.problem = &problem_, .kv_split = launch.schedule.kv_split, .key_tile = plan_.key_tile} {
  const auto stride = round_up((problem_.batch + 1) * 8, 64);
  index_.tiles = reinterpret_cast<std::int64_t*>(launch.workspace);
  index_.parts = reinterpret_cast<std::int64_t*>(launch.workspace + stride);
  index_.mask = reinterpret_cast<std::int64_t*>(launch.workspace + 2 * stride);
  scratch_ = launch.workspace + plan_.index_bytes;
  const auto workers = static_cast<std::size_t>(std::max(launch.facts.num_threads, 1));
  parts_ = scratch_ + plan_.scratch_bytes * workers;

  index_.tiles[0] = index_.parts[0] = index_.mask[0] = 0;
  const std::int64_t group = problem_.group_size();
  for (std::int64_t b = 0; b < problem_.batch; ++b) {
    const std::int64_t rows = qo_len(problem_, b) * group;
    const std::int64_t tiles = (rows + plan_.tile_rows - 1) / plan_.tile_rows;
    const std::int64_t splits = split_count(kv_len(problem_, b), job_.kv_split);
    index_.tiles[b + 1] = index_.tiles[b] + tiles;
    index_.parts[b + 1] = index_.parts[b] + tiles * splits;
    index_.mask[b + 1] = index_.mask[b];
    if (has_custom_mask(problem_)) index_.mask[b + 1] += mask_bytes(problem_, b);
  }
}

// Row tile `tile` of a request, for KV head 0 and all splits.
FlashItem FlashRun::find_item(std::int64_t tile, std::int64_t request) const {
  FlashItem item;
  item.request = request;
  item.qo_len = qo_len(problem_, request);
  item.kv_len = kv_len(problem_, request);
  item.row_begin = tile * plan_.tile_rows;
  const std::int64_t left = item.qo_len * problem_.group_size() - item.row_begin;
  item.rows = static_cast<int>(std::min(plan_.tile_rows, left));
  item.mask_begin = index_.mask[request];
  item.split_end = split_count(item.kv_len, job_.kv_split);
  return item;
}

FlashState FlashRun::part_state(std::int64_t part) const {
  return lay_out_state(problem_, plan_,
                       reinterpret_cast<float*>(parts_) + part * plan_.state_floats);
}

FlashScratch FlashRun::worker_scratch(int worker) const {
  FlashScratch scratch;
  lay_out_scratch(problem_, plan_,
                  scratch_ + plan_.scratch_bytes * static_cast<std::size_t>(worker), &scratch);
  return scratch;
}

// Gives the item the KV heads of block `block`.
void FlashRun::set_heads(std::int64_t block, FlashItem* item) const {
  item->kv_head = block * plan_.item_heads;
  item->heads =
      static_cast<int>(std::min<std::int64_t>(plan_.item_heads, problem_.heads_kv - item->kv_head));
}

void FlashRun::store_heads(FlashItem item, const FlashState& state) const {
  for (int head = 0; head < item.heads; ++head) {
    flash_store(job_, item, state.of_head(head));
    ++item.kv_head;
  }
}

// Late tiles first: under a causal mask they are the long ones.
void FlashRun::walk_in_order(ThreadPool& pool) {
  const std::int64_t tiles = index_.tiles[problem_.batch];
  pool.parallel_for(tiles * head_blocks(), [&](std::int64_t i, int worker) {
    const std::int64_t tile = tiles - 1 - i / head_blocks();
    const std::int64_t request = request_of(index_.tiles, tile);
    FlashItem item = find_item(tile - index_.tiles[request], request);
    set_heads(i % head_blocks(), &item);
    store_heads(item, flash_walk(job_, item, worker_scratch(worker)));
  });
}

// A part is (row tile of the batch, split), its states those of all KV heads side by side.
void FlashRun::walk_parts(ThreadPool& pool) {
  const std::int64_t parts = index_.parts[problem_.batch];
  pool.parallel_for(parts * head_blocks(), [&](std::int64_t i, int worker) {
    const std::int64_t part = i / head_blocks();
    const std::int64_t request = request_of(index_.parts, part);
    const std::int64_t splits = split_count(kv_len(problem_, request), job_.kv_split);
    const std::int64_t local = part - index_.parts[request];
    FlashItem item = find_item(local / splits, request);
    set_heads(i % head_blocks(), &item);
    item.split_begin = local % splits;
    item.split_end = item.split_begin + 1;
    FlashScratch scratch = worker_scratch(worker);
    scratch.part = part_state(part * problem_.heads_kv + item.kv_head);
    flash_walk(job_, item, scratch);
  });
}

void FlashRun::fold_parts(ThreadPool& pool) {
  const std::int64_t tiles = index_.tiles[problem_.batch];
  pool.parallel_for(tiles * problem_.heads_kv, [&](std::int64_t i, int) {
    const std::int64_t tile = i / problem_.heads_kv;
    const std::int64_t request = request_of(index_.tiles, tile);
    FlashItem item = find_item(tile - index_.tiles[request], request);
    item.kv_head = i % problem_.heads_kv;
    const std::int64_t first =
        index_.parts[request] + (tile - index_.tiles[request]) * item.split_end;
    const FlashState total = part_state(first * problem_.heads_kv + item.kv_head);
    for (std::int64_t s = 1; s < item.split_end; ++s) {
      flash_fold(problem_, item.rows, part_state((first + s) * problem_.heads_kv + item.kv_head),
                 total);
    }
    flash_store(job_, item, total);
  });
}

void FlashRun::walk_all(ThreadPool& pool) {
  const std::int64_t parts = index_.parts[problem_.batch] * problem_.heads_kv;
  const bool split = index_.parts[problem_.batch] > index_.tiles[problem_.batch];
  // Lengths past the declared maxima need more states than were planned: walk those in order.
  if (!split || parts > plan_.max_parts) return walk_in_order(pool);
  walk_parts(pool);
  fold_parts(pool);
}

}  // namespace

Status flash_launch(const Launch& launch) {
  FlashRun(launch).walk_all(launch.resources.pool);
  return {};
}

}  // namespace tilegate::cpu
