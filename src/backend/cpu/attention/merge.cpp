// SPDX-License-Identifier: Apache-2.0
// cpu.merge: o = sum of 2^(s_p - m) v_p over 2^(s_p - m), lse = log2 of the sum of 2^s_p, for every
// (row, head). v [rows, parts, heads, dim], s [rows, parts, heads] base 2. A part with s = -inf is
// skipped and its v is not read; without parts left o = 0 and lse = -inf. fp32 sums in order of
// parts. Rows in parallel; bound by memory.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention/merge.cpp"
#include "backend/cpu/simd_targets.h"
// Per-target code follows.
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/attention/launch.h"
#include "backend/cpu/simd_convert-inl.h"
#include "core/element.h"

HWY_BEFORE_NAMESPACE();
namespace tilegate::cpu::HWY_NAMESPACE {

inline constexpr std::int64_t kDimBlock = 256;

// log2 of the sum of 2^s, and the largest s.
struct MergeWeights {
  double largest = -std::numeric_limits<double>::infinity();
  double sum = 0.0;
};

inline double part_s(const MergeProblem& problem, std::int64_t row, std::int64_t part,
                     std::int64_t head) {
  return static_cast<const float*>(
      problem.s.data)[row * problem.s.strides[0] + part * problem.s.strides[1] +
                      head * problem.s.strides[2]];
}

inline MergeWeights merge_weights(const MergeProblem& problem, std::int64_t row,
                                  std::int64_t head) {
  MergeWeights weights;
  for (std::int64_t p = 0; p < problem.parts; ++p) {
    weights.largest = std::max(weights.largest, part_s(problem, row, p, head));
  }
  for (std::int64_t p = 0; p < problem.parts; ++p) {
    const double s = part_s(problem, row, p, head);
    if (s == -std::numeric_limits<double>::infinity()) continue;
    weights.sum += std::exp2(s - weights.largest);
  }
  return weights;
}

template <class T>
void merge_block(const MergeProblem& problem, std::int64_t row, std::int64_t head,
                 const MergeWeights& weights, std::int64_t begin) {
  const std::int64_t dims = std::min(kDimBlock, problem.dim - begin);
  float sum[kDimBlock];
  float line[kDimBlock];
  std::fill(sum, sum + dims, 0.0f);
  for (std::int64_t p = 0; p < problem.parts; ++p) {
    const double s = part_s(problem, row, p, head);
    if (s == -std::numeric_limits<double>::infinity()) continue;
    const auto weight = static_cast<float>(std::exp2(s - weights.largest) / weights.sum);
    const T* v = static_cast<const T*>(problem.v.data) + row * problem.v.strides[0] +
                 p * problem.v.strides[1] + head * problem.v.strides[2] + begin;
    load_row(v, dims, line);
    for (std::int64_t i = 0; i < dims; ++i) sum[i] += weight * line[i];
  }
  T* o = static_cast<T*>(problem.o.data) + row * problem.o.strides[0] +
         head * problem.o.strides[1] + begin;
  store_row(sum, 1.0f, dims, o);
}

template <class T>
void merge_row(const MergeProblem& problem, std::int64_t row) {
  for (std::int64_t head = 0; head < problem.heads; ++head) {
    const MergeWeights weights = merge_weights(problem, row, head);
    for (std::int64_t begin = 0; begin < problem.dim; begin += kDimBlock) {
      merge_block<T>(problem, row, head, weights, begin);
    }
    if (!problem.lse.present()) continue;
    float* lse = static_cast<float*>(problem.lse.data) + row * problem.lse.strides[0] +
                 head * problem.lse.strides[1];
    *lse = static_cast<float>(weights.largest + std::log2(weights.sum));
  }
}

void merge_any(const MergeProblem& problem, std::int64_t row) {
  switch (problem.dtype) {
    case DType::kFloat16:
      merge_row<Half>(problem, row);
      break;
    case DType::kBFloat16:
      merge_row<BFloat16>(problem, row);
      break;
    default:
      merge_row<float>(problem, row);
      break;
  }
}

}  // namespace tilegate::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tilegate::cpu {

HWY_EXPORT(merge_any);

std::optional<std::string> merge_reject(const Operation& op, const DeviceFacts& facts) {
  if (!std::holds_alternative<MergeProblem>(op)) return std::string(kOtherOperation);
  if (facts.type != DeviceType::kCpu) return "tensors must be in host memory";
  return std::nullopt;
}

double merge_cost_us(const Operation& op, const DeviceFacts& facts) {
  const auto& problem = std::get<MergeProblem>(op);
  const double bytes = static_cast<double>(problem.rows * problem.heads * problem.dim) *
                       static_cast<double>((problem.parts + 1) * size_of(problem.dtype));
  constexpr double kBytesPerUs = 8e3;  // one thread
  return 1.0 + bytes / kBytesPerUs / std::max(facts.num_threads, 1);
}

Schedule merge_schedule(const Operation&, const DeviceFacts&) {
  Schedule schedule;
  schedule.note = "parts summed in order";
  return schedule;
}

Status merge_launch(const Launch& launch) {
  const auto& problem = std::get<MergeProblem>(launch.call);
  launch.resources.pool.parallel_for(problem.rows, [&](std::int64_t row, int) {
    HWY_DYNAMIC_DISPATCH(merge_any)(problem, row);
  });
  return {};
}

}  // namespace tilegate::cpu
#endif  // HWY_ONCE
