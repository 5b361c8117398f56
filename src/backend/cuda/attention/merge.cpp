// SPDX-License-Identifier: Apache-2.0
// merge_states on the GPU.

#include <algorithm>

#include "backend/cuda/attention/paged.h"
#include "backend/cuda/attention/rows.h"
#include "backend/cuda/attention/rows_launch.h"
#include "backend/cuda/check.h"

namespace tilegate {
namespace {

constexpr double kLaunchUs = 2.0;

}  // namespace

std::optional<std::string> merge_reject(const Operation& op, const DeviceFacts&) {
  if (!std::holds_alternative<MergeProblem>(op)) return std::string(kOtherOperation);
  return std::nullopt;
}

double merge_cost_us(const Operation& op, const DeviceFacts& facts) {
  const auto& p = std::get<MergeProblem>(op);
  const double elements = static_cast<double>(p.rows * p.heads * p.dim * (p.parts + 1));
  return kLaunchUs +
         elements * static_cast<double>(size_of(p.dtype)) / (facts.bandwidth_gbps * 1e3);
}

Status merge_launch(const Launch& launch) {
  const auto& p = std::get<MergeProblem>(launch.call);
  if (p.rows == 0 || p.heads == 0 || p.dim == 0) return {};
  kernel::MergeParams params;
  params.v = p.v.data;
  params.s = static_cast<const float*>(p.s.data);
  params.o = p.o.data;
  params.v_row = p.v.strides[0], params.v_part = p.v.strides[1], params.v_head = p.v.strides[2];
  params.s_row = p.s.strides[0], params.s_part = p.s.strides[1], params.s_head = p.s.strides[2];
  params.o_row = p.o.strides[0], params.o_head = p.o.strides[1];
  if (p.lse.present()) {
    params.lse = static_cast<float*>(p.lse.data);
    params.lse_row = p.lse.strides[0], params.lse_head = p.lse.strides[1];
  }
  params.rows = p.rows;
  params.parts = static_cast<int>(p.parts);
  params.heads = static_cast<int>(p.heads);
  const bool words = moves_in_words(p.v) && moves_in_words(p.o);
  const std::int64_t width = words ? kWordBytes / size_of(p.dtype) : 1;
  params.chunks = static_cast<int>(p.dim / width);
  params.rows_per_block = std::max(1, kRowThreads / (params.heads * params.chunks));
  return cuda_status(launch_merge(params, p.dtype, words ? MergeWidth::kWord : MergeWidth::kElement,
                                  static_cast<cudaStream_t>(launch.stream)),
                     "launching cuda.merge");
}

}  // namespace tilegate
