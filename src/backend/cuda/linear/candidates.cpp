// SPDX-License-Identifier: Apache-2.0
// What the GPU offers for the delta rule: decode (at most 16 tokens a sequence) and commit.
#include "backend/cuda/candidates.h"

#include <algorithm>

#include "backend/cuda/check.h"
#include "backend/cuda/index.h"
#include "backend/cuda/linear/params.h"
#include "backend/cuda/linear/tiles.h"

namespace tilegate {
namespace {

using Reason = std::optional<std::string>;

constexpr std::int64_t kMaxTokens = 16;          // a sequence
constexpr std::int64_t kStageBytes = 32 * 1024;  // of vectors in the shared memory of a block
constexpr std::int64_t kMaxSeqs = 65535;         // of a grid: beyond it blocks stride over them
constexpr std::int64_t kMaxInt = 2147483647;
constexpr double kLaunchUs = 2.5;
constexpr double kSmUsPerElement = 6e-5;  // of a state, an update (docs/results: 4 tokens beside 1)
constexpr int kOverlapCapability = 90;    // programmatic dependent launch

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// What the kernels number in 32 bits.
Reason reject_counts(std::int64_t num_seqs, std::int64_t heads, std::int64_t dim_v) {
  constexpr std::int64_t kMaxRows = kMaxInt / 16;
  if (num_seqs > kMaxInt - kMaxSeqs) {
    return fmt::format("num_seqs must be at most {}, got {}", kMaxInt - kMaxSeqs, num_seqs);
  }
  if (heads > kernel::kMaxHeads) {
    return fmt::format("state heads must be at most {}, got {}", kernel::kMaxHeads, heads);
  }
  if (dim_v > kMaxRows) return fmt::format("V must be at most {}, got {}", kMaxRows, dim_v);
  return std::nullopt;
}

// Token addresses are sums of products of unsigned 32-bit numbers.
Reason reject_strides(const LinearProblem& p) {
  constexpr std::int64_t kMaxBytes = 4294967295;
  const std::pair<const char*, const TensorView*> tensors[] = {
      {"q", &p.q}, {"k", &p.k},         {"v", &p.v},
      {"o", &p.o}, {"g", &p.g},         {"beta", &p.beta},
      {"w", &p.w}, {"A_log", &p.a_log}, {"dt_bias", &p.dt_bias}};
  for (const auto& [name, view] : tensors) {
    for (int i = 0; i < std::min(view->rank, 3); ++i) {
      const std::int64_t limit = kMaxBytes / size_of(view->dtype);
      if (view->strides[i] >= 0 && view->strides[i] <= limit) continue;
      return fmt::format("strides of {} must be 0..{} elements, got {} in dimension {}", name,
                         limit, view->strides[i], i);
    }
  }
  const std::pair<const char*, const TensorView*> indices[] = {
      {"cu_seqlens", &p.cu_seqlens},
      {"state_indices", &p.read_index},
      {"output_state_indices", &p.write_index},
      {"num_accepted_tokens", &p.num_accepted},
      {"checkpoint_cu_starts", &p.checkpoint_starts},
      {"checkpoint_state_indices", &p.checkpoint_rows}};
  for (const auto& [name, view] : indices) {
    if (Reason reason = index_rejection(name, *view)) return reason;
  }
  if (Reason reason = index_rejection("state_slots", p.state_slots, 1)) return reason;
  if (p.tokens <= kMaxInt / p.householder) return std::nullopt;
  return fmt::format("q must have at most {} tokens, got {}", kMaxInt / p.householder, p.tokens);
}

// Any length is walked to its end, but a long one by few blocks. Without a declared maximum the
// average decides.
bool has_short_steps(const LinearProblem& p) {
  if (p.max_seqlen <= kMaxTokens) return true;
  return p.uniform_len < 0 && p.tokens <= kMaxTokens * p.num_seqs;
}

Reason reject_decode(const Operation& op, const DeviceFacts&) {
  const auto* p = std::get_if<LinearProblem>(&op);
  if (p == nullptr) return std::string(kOtherOperation);
  if (p->use_cp == UseCp::kTrue) {
    return "use_cp must be \"auto\" or False, got True: decode walks a sequence in one piece";
  }
  if (find_delta_kernel(StateForm::kTyped, p->dim_k) == nullptr) {
    return fmt::format("K must be 32, 64, 128 or 256, got {}", p->dim_k);
  }
  if (p->dim_v % 8 != 0) return fmt::format("V must be a multiple of 8, got {}", p->dim_v);
  if (!has_short_steps(*p)) {
    return fmt::format(
        "max_seqlen must be at most {}, got {}, or q have at most {} tokens a sequence, got {} for "
        "{} "
        "sequences: it serves short steps only",
        kMaxTokens, p->max_seqlen, kMaxTokens, p->tokens, p->num_seqs);
  }
  if (Reason reason = reject_strides(*p)) return reason;
  return reject_counts(p->num_seqs, p->heads_o, p->dim_v);
}

Reason reject_commit(const Operation& op, const DeviceFacts&) {
  constexpr std::int64_t kMaxColumns = kernel::kLaneColumns * kernel::kCommitThreads;
  const auto* p = std::get_if<CommitProblem>(&op);
  if (p == nullptr) return std::string(kOtherOperation);
  if (p->dim_k % kernel::kLaneColumns != 0 || p->dim_k > kMaxColumns) {
    return fmt::format("K must be a multiple of {} and at most {}, got {}", kernel::kLaneColumns,
                       kMaxColumns, p->dim_k);
  }
  if (Reason reason = index_rejection("state_indices", p->index)) return reason;
  if (Reason reason = index_rejection("accepted", p->accepted)) return reason;
  return reject_counts(p->num_seqs, p->heads_o, p->dim_v);
}

double traffic_us(double states, std::int64_t bytes_each, const DeviceFacts& facts) {
  const double bytes = states * static_cast<double>(bytes_each);
  return kLaunchUs + bytes / (std::max(facts.bandwidth_gbps, 1.0) * 1e3);
}

double decode_cost_us(const Operation& op, const DeviceFacts& facts) {
  const auto& p = std::get<LinearProblem>(op);
  std::int64_t bytes = p.state_in.present() ? size_of(p.state_in.dtype) : 0;
  if (p.state_out.present()) bytes += size_of(p.state_out.dtype);
  const auto states = static_cast<double>(p.num_seqs * p.heads_o);
  const std::int64_t tokens = p.uniform_len >= 0 ? p.tokens * p.num_seqs : p.tokens;
  const auto updates = static_cast<double>(tokens * p.householder * p.heads_o);
  const double elements = static_cast<double>(p.dim_k) * static_cast<double>(p.dim_v);
  return traffic_us(states, bytes * p.dim_k * p.dim_v, facts) +
         updates * elements * kSmUsPerElement / std::max(facts.num_sms, 1);
}

double commit_cost_us(const Operation& op, const DeviceFacts& facts) {
  const auto& p = std::get<CommitProblem>(op);
  const auto states = static_cast<double>(p.num_seqs * p.heads_o);
  return traffic_us(states, 2 * size_of(p.state.dtype) * p.dim_k * p.dim_v, facts);
}

bool fits(const DeltaTile& tile, const LinearProblem& p, const DeviceFacts& facts) {
  const TensorView& state = p.state_in.present() ? p.state_in : p.state_out;
  const std::int64_t element_bytes = state.present() ? size_of(state.dtype) : 4;
  const std::int64_t elements = p.num_seqs * p.heads_o * p.dim_k * p.dim_v;
  return (tile.element_bytes == 0 || tile.element_bytes == element_bytes) &&
         p.max_seqlen * p.householder >= tile.steps &&
         elements >= tile.elements_per_sm * facts.num_sms;
}

bool rows_adjoin(const TensorView& states) {
  return !states.present() || states.strides[2] == states.shape[3];
}

// The kernel for one token of one update a sequence, if the call is of its kind; else null.
const TokenKernel* token_kernel(const LinearProblem& p) {
  const bool one = p.uniform_len == 1 && p.householder == 1 && p.num_seqs <= kMaxSeqs;
  const bool listed = p.write_index.present() || p.has_initial.present() ||
                      p.num_accepted.present() || p.state_slots.present() || p.record_k.present();
  const bool vectors = p.erase == EraseKind::kVector || p.write == WriteKind::kVector;
  if (!one || listed || vectors) return nullptr;
  if (!rows_adjoin(p.state_in) || !rows_adjoin(p.state_out)) return nullptr;
  if (p.dim_v % token_rows_of_block(static_cast<int>(p.dim_k)) != 0) return nullptr;
  const auto token =
      p.dtype == DType::kBFloat16 ? kernel::ElementKind::kBf16 : kernel::ElementKind::kFp16;
  if (size_of(p.dtype) != 2) return nullptr;
  const std::int64_t elements = p.num_seqs * p.heads_o * p.dim_k * p.dim_v;
  if (!within_token_limit(state_form(p), elements)) return nullptr;
  return find_token_kernel(state_form(p), token, p.dim_k, p.gate_per_channel);
}

Schedule decode_schedule(const Operation& op, const DeviceFacts& facts) {
  const auto& p = std::get<LinearProblem>(op);
  Schedule schedule;
  for (std::size_t i = 0; i < std::size(kDeltaTiles); ++i) {
    if (fits(kDeltaTiles[i], p, facts)) schedule.config = static_cast<std::int64_t>(i);
  }
  if (token_kernel(p) != nullptr) {
    schedule.note = fmt::format(
        "states read and written once, one token: each of {} warps a block prepares for itself",
        kTokenWarps);
    return schedule;
  }
  const DeltaTile& tile = kDeltaTiles[schedule.config];
  schedule.note = fmt::format(
      "states read and written once, steps prepared once a block: {} warps, {} tiles a warp",
      tile.warps, tile.tiles);
  return schedule;
}

Schedule commit_schedule(const Operation&, const DeviceFacts&) {
  return {.note = "replays the accepted tokens, states read and written once"};
}

DeltaGrid grid_of(std::int64_t parts, std::int64_t heads, std::int64_t num_seqs,
                  const Launch& launch) {
  return {.parts = static_cast<int>(parts),
          .heads = static_cast<int>(heads),
          .seqs = static_cast<int>(std::min(num_seqs, kMaxSeqs)),
          .overlap = launch.facts.compute_capability >= kOverlapCapability};
}

Status launch_token(const LinearProblem& p, const TokenKernel& kernel, const Launch& launch) {
  DeltaGrid grid =
      grid_of(p.dim_v / token_rows_of_block(kernel.dim_k), p.heads_o, p.num_seqs, launch);
  grid.threads = 32 * kTokenWarps;
  return cuda_status(
      kernel.launch(delta_decode_params(p), grid, static_cast<cudaStream_t>(launch.stream)),
      "launching cuda.delta_decode");
}

Status launch_decode(const Launch& launch) {
  const auto& p = std::get<LinearProblem>(launch.call);
  if (p.num_seqs == 0) return {};
  if (const TokenKernel* kernel = token_kernel(p)) return launch_token(p, *kernel, launch);
  const DeltaTile& tile = kDeltaTiles[launch.schedule.config];
  const DeltaKernel& kernel = *find_delta_kernel(state_form(p), p.dim_k);
  kernel::DeltaDecodeParams params = delta_decode_params(p);
  // A block has no more warps, and a warp no more tiles, than there are rows.
  const std::int64_t wanted = divide_up(p.dim_v, kernel.tile_rows());
  const std::int64_t warps = std::min<std::int64_t>(tile.warps, wanted);
  const std::int64_t tiles = tile.tiles * kDeltaPasses / kernel.passes();
  params.tiles = static_cast<int>(std::min(tiles, divide_up(wanted, warps)));
  params.stage_steps = static_cast<int>(
      std::clamp<std::int64_t>(p.max_seqlen * p.householder, 1, kStageBytes / kernel.step_bytes()));
  DeltaGrid grid = grid_of(divide_up(wanted, warps * params.tiles), p.heads_o, p.num_seqs, launch);
  grid.threads = static_cast<int>(32 * warps);
  return cuda_status(kernel.launch(params, grid, static_cast<cudaStream_t>(launch.stream)),
                     "launching cuda.delta_decode");
}

Status launch_commit(const Launch& launch) {
  const auto& p = std::get<CommitProblem>(launch.call);
  if (p.num_seqs == 0) return {};
  const kernel::CommitParams params = commit_params(p);
  const std::int64_t rows_at_once =
      kernel::kCommitThreads / (p.dim_k / kernel::kLaneColumns) * kernel::kCommitPasses;
  DeltaGrid grid = grid_of(divide_up(p.dim_v, rows_at_once), p.heads_o, p.num_seqs, launch);
  grid.threads = kernel::kCommitThreads;
  return cuda_status(launch_commit_kernel(params, grid, static_cast<cudaStream_t>(launch.stream)),
                     "launching cuda.commit");
}

constexpr Candidate kCandidates[] = {
    {"cuda.delta_decode", Backend::kCuda, reject_decode, decode_cost_us, decode_schedule,
     launch_decode},
    {"cuda.commit", Backend::kCuda, reject_commit, commit_cost_us, commit_schedule, launch_commit},
};

}  // namespace

std::span<const Candidate> cuda_linear_candidates() { return kCandidates; }

}  // namespace tilegate
