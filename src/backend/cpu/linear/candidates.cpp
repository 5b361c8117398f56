// SPDX-License-Identifier: Apache-2.0
// What the CPU offers for the delta rule: which calls each kernel takes, its cost and its schedule.
// The form is chosen by what is asked for, never by a length: a token's bits may not depend on how
// many tokens follow it.
#include "backend/cpu/candidates.h"

#include <fmt/format.h>

#include <array>

#include "backend/cpu/linear/launch.h"

namespace tilegate {
namespace {

using Reason = std::optional<std::string>;

constexpr double kMacsPerUsThread = 2.0e4;   // chunked form, a thread
constexpr double kBytesPerUsThread = 8.0e3;  // state traffic, a thread

// States after every token exist only in the recurrent form; decode is that form.
bool needs_tokens_one_by_one(const LinearProblem& p) {
  return p.rule == DeltaRule::kGatedDeltaRuleDecode || p.state_slots.present();
}

Reason reject_dims(const DeviceFacts& facts, std::int64_t dim_k, std::int64_t dim_v) {
  if (facts.type != DeviceType::kCpu) return "tensors must be in host memory";
  if (dim_k % 8 != 0) return fmt::format("K must be a multiple of 8, got {}", dim_k);
  if (dim_v % 8 != 0) return fmt::format("V must be a multiple of 8, got {}", dim_v);
  return std::nullopt;
}

Reason reject_chunk(const Operation& op, const DeviceFacts& facts) {
  const LinearProblem* p = std::get_if<LinearProblem>(&op);
  if (p == nullptr) return std::string(kOtherOperation);
  if (needs_tokens_one_by_one(*p)) {
    return "decode and state_slots need the recurrent form";
  }
  return reject_dims(facts, p->dim_k, p->dim_v);
}

Reason reject_recurrent(const Operation& op, const DeviceFacts& facts) {
  const LinearProblem* p = std::get_if<LinearProblem>(&op);
  if (p == nullptr) return std::string(kOtherOperation);
  if (!needs_tokens_one_by_one(*p)) {
    return "prefill takes the chunked form at every length, so that bits do not depend on it";
  }
  if (p->use_cp == UseCp::kTrue)
    return "use_cp must be auto or False for the recurrent form, got True";
  return reject_dims(facts, p->dim_k, p->dim_v);
}

Reason reject_commit(const Operation& op, const DeviceFacts& facts) {
  const CommitProblem* p = std::get_if<CommitProblem>(&op);
  if (p == nullptr) return std::string(kOtherOperation);
  return reject_dims(facts, p->dim_k, p->dim_v);
}

double all_tokens(const LinearProblem& p) {
  const std::int64_t seqs = p.uniform_len >= 0 ? p.num_seqs : 1;
  return static_cast<double>(p.tokens * seqs * p.householder);
}

double state_bytes(std::int64_t seqs, std::int64_t heads, std::int64_t dim_k, std::int64_t dim_v) {
  return 2.0 * 4.0 * static_cast<double>(seqs * heads * dim_k * dim_v);
}

double cost_chunk(const Operation& op, const DeviceFacts& facts) {
  const LinearProblem& p = std::get<LinearProblem>(op);
  const double row_macs =
      3.0 * static_cast<double>(p.dim_k * p.dim_v) + 64.0 * static_cast<double>(p.dim_k + p.dim_v);
  const double macs = all_tokens(p) * static_cast<double>(p.heads_o) * row_macs;
  const double bytes = state_bytes(p.num_seqs, p.heads_o, p.dim_k, p.dim_v);
  const double walks = p.use_cp == UseCp::kTrue ? 3.0 : 1.0;
  return (walks * macs / kMacsPerUsThread + bytes / kBytesPerUsThread) / facts.num_threads;
}

double cost_recurrent(const Operation& op, const DeviceFacts& facts) {
  const LinearProblem& p = std::get<LinearProblem>(op);
  const double macs =
      6.0 * all_tokens(p) * static_cast<double>(p.heads_o * p.dim_k) * static_cast<double>(p.dim_v);
  const double bytes = state_bytes(p.num_seqs, p.heads_o, p.dim_k, p.dim_v);
  return (macs / kMacsPerUsThread + bytes / kBytesPerUsThread) / facts.num_threads;
}

double cost_commit(const Operation& op, const DeviceFacts& facts) {
  const CommitProblem& p = std::get<CommitProblem>(op);
  const double bytes = state_bytes(p.num_seqs, p.heads_o, p.dim_k, p.dim_v);
  return bytes / kBytesPerUsThread / facts.num_threads;
}

Schedule schedule_chunk(const Operation& op, const DeviceFacts& facts) {
  const LinearProblem& p = std::get<LinearProblem>(op);
  Schedule schedule;
  if (p.use_cp == UseCp::kTrue) {
    schedule.segment_tokens = cpu_linear::kSegmentTokens;
    schedule.workspace_bytes = cpu_linear::segments_workspace_bytes(p, facts.num_threads);
    schedule.note = fmt::format("chunks of 64, context-parallel segments of {} tokens",
                                cpu_linear::kSegmentTokens);
    return schedule;
  }
  schedule.workspace_bytes = cpu_linear::chunk_workspace_bytes(p, facts.num_threads);
  schedule.note = "chunks of 64, one segment";
  if (p.use_cp == UseCp::kAuto) {
    schedule.note += " (segments would cost three walks, whatever the number of threads)";
  }
  return schedule;
}

Schedule schedule_recurrent(const Operation& op, const DeviceFacts& facts) {
  const LinearProblem& p = std::get<LinearProblem>(op);
  Schedule schedule;
  schedule.workspace_bytes =
      cpu_linear::recurrent_workspace_bytes(p.dim_k, p.dim_v, facts.num_threads);
  schedule.note = "token by token, states read and written once";
  return schedule;
}

Schedule schedule_commit(const Operation& op, const DeviceFacts& facts) {
  const CommitProblem& p = std::get<CommitProblem>(op);
  Schedule schedule;
  schedule.workspace_bytes =
      cpu_linear::recurrent_workspace_bytes(p.dim_k, p.dim_v, facts.num_threads);
  schedule.note = "replays the accepted tokens, states read and written once";
  return schedule;
}

constexpr std::array<Candidate, 3> kCandidates = {{
    {.name = "cpu.chunk",
     .backend = Backend::kCpu,
     .reject = &reject_chunk,
     .cost_us = &cost_chunk,
     .schedule = &schedule_chunk,
     .launch = &cpu_linear::launch_chunk},
    {.name = "cpu.recurrent",
     .backend = Backend::kCpu,
     .reject = &reject_recurrent,
     .cost_us = &cost_recurrent,
     .schedule = &schedule_recurrent,
     .launch = &cpu_linear::launch_recurrent},
    {.name = "cpu.commit",
     .backend = Backend::kCpu,
     .reject = &reject_commit,
     .cost_us = &cost_commit,
     .schedule = &schedule_commit,
     .launch = &cpu_linear::launch_commit},
}};

}  // namespace

std::span<const Candidate> cpu_linear_candidates() { return kCandidates; }

}  // namespace tilegate
