// SPDX-License-Identifier: Apache-2.0
// cudnn.prefill and cudnn.decode: one table, one launcher; they differ in what they serve and in
// the override of the automatic choice, which is about decode alone.
#include "backend/cudnn/candidates.h"

#include <array>

#include "backend/cudnn/graph/cost.h"
#include "backend/cudnn/graph/form.h"
#include "backend/cudnn/graph/support.h"
#include "backend/cudnn/launch.h"
#include "core/message.h"

namespace tilegate {
namespace {

constexpr int kNeverAutomatic = 0;
constexpr int kWheneverPossible = 1;
// A graph compiles for 0.5 to 2 s at the first call: it must win by more than noise.
constexpr double kCompileMargin = 1.03;

const AttentionProblem* problem_of(const Operation& op) {
  return std::get_if<AttentionProblem>(&op);
}

std::optional<std::string> reject_prefill(const Operation& op, const DeviceFacts& facts) {
  const AttentionProblem* p = problem_of(op);
  if (p == nullptr || p->op == AttentionOp::kDecodePaged) return std::string(kOtherOperation);
  return cudnn::unsupported_reason(*p, facts);
}

std::optional<std::string> reject_decode(const Operation& op, const DeviceFacts& facts) {
  const AttentionProblem* p = problem_of(op);
  if (p == nullptr || p->op != AttentionOp::kDecodePaged) return std::string(kOtherOperation);
  if (p->backend == Backend::kAuto && facts.decode_auto_cudnn == kNeverAutomatic) {
    return "decode_auto_cudnn is 0: cuDNN decodes only when it is asked for";
  }
  return cudnn::unsupported_reason(*p, facts);
}

double prefill_cost_us(const Operation& op, const DeviceFacts& facts) {
  return cudnn::cost_us(std::get<AttentionProblem>(op), facts);
}

double decode_cost_us(const Operation& op, const DeviceFacts& facts) {
  const auto& p = std::get<AttentionProblem>(op);
  const bool preferred =
      p.backend == Backend::kAuto && facts.decode_auto_cudnn == kWheneverPossible;
  return preferred ? kPreferredUs : kCompileMargin * cudnn::cost_us(p, facts);
}

Schedule schedule(const Operation& op, const DeviceFacts& facts) {
  const auto& p = std::get<AttentionProblem>(op);
  const cudnn::GraphForm form = cudnn::make_form(p, facts);
  Schedule out;
  out.workspace_bytes = cudnn::workspace_bound(p, facts);
  out.pinned_bits = false;  // cuDNN promises the same bits for the same call, no more
  out.note = fmt::format("cuDNN {}, {} lengths, at most {} rows and {} keys a request",
                         cudnn::version_text(facts.cudnn_version),
                         form.spec.lengths == cudnn::Lengths::kDense ? "equal" : "device",
                         form.spec.rows, form.spec.keys);
  return out;
}

}  // namespace

std::span<const Candidate> cudnn_candidates() {
  static constexpr std::array kCandidates = {
      Candidate{.name = "cudnn.prefill",
                .backend = Backend::kCudnn,
                .reject = reject_prefill,
                .cost_us = prefill_cost_us,
                .schedule = schedule,
                .launch = cudnn::launch,
                .prepare = cudnn::prepare},
      Candidate{.name = "cudnn.decode",
                .backend = Backend::kCudnn,
                .reject = reject_decode,
                .cost_us = decode_cost_us,
                .schedule = schedule,
                .launch = cudnn::launch,
                .prepare = cudnn::prepare},
  };
  return kCandidates;
}

}  // namespace tilegate
