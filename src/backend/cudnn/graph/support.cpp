// SPDX-License-Identifier: Apache-2.0
// Checks in the order: the library, options, dtypes and shapes, layout, versions and their defects.
// Versions are cudnnGetVersion()'s numbers: 91900 is 9.19.0.
#include "backend/cudnn/graph/support.h"

#include <bit>
#include <limits>

#include "backend/cudnn/graph/form.h"
#include "core/message.h"

namespace tilegate::cudnn {
namespace {

using Reason = std::optional<std::string>;

constexpr int kOldest = 91400;            // paged, sinks, strides of lse and 64-bit offsets
constexpr int kLeftWindowBroken = 91400;  // wrong results without a right bound
constexpr std::int64_t kLeftWindowSafeKeys = 1024;
constexpr int kRaggedBeforeHopper = 91801;     // first version with offsets below sm_90
constexpr int kBlackwellDecodeBroken = 91900;  // wrong results; no fixed version is known
constexpr std::int64_t kMaxHeadDim = 256;
constexpr std::int64_t kMaxDecodeDim = 128;  // one row, except on sm_90
constexpr std::int64_t kDimMultiple = 8;
constexpr std::int64_t kStrideMultiple = 8;  // 16 bytes of 16-bit elements
constexpr std::int64_t kMaxLength = std::numeric_limits<std::int32_t>::max();

Reason option_reason(const AttentionProblem& p) {
  if (p.soft_cap > 0.0f) {
    return fmt::format("logits_soft_cap must be 0 for cuDNN, got {}", p.soft_cap);
  }
  if (p.custom_mask.present() || p.packed_custom_mask.present()) {
    return "custom masks must be absent for cuDNN, got one";
  }
  if (p.batch_invariant) return "batch_invariant must be false for cuDNN, got true";
  if (p.fixed_split_size > 0) {
    return fmt::format("fixed_split_size must be 0 for cuDNN, got {}", p.fixed_split_size);
  }
  if (p.disable_split_kv) return "disable_split_kv must be false for cuDNN, got true";
  return std::nullopt;
}

Reason shape_reason(const AttentionProblem& p) {
  if (p.dtype == DType::kFloat32) {
    return "q must be float16 or bfloat16 for cuDNN, got float32";
  }
  for (const std::int64_t dim : {p.dim_qk, p.dim_v}) {
    if (dim % kDimMultiple == 0 && dim <= kMaxHeadDim) continue;
    return fmt::format("head_dim must be a multiple of {} up to {} for cuDNN, got {}", kDimMultiple,
                       kMaxHeadDim, dim);
  }
  if (p.paged() && !std::has_single_bit(static_cast<std::uint64_t>(p.page_size))) {
    return fmt::format("page_size must be a power of two for cuDNN, got {}", p.page_size);
  }
  if (p.max_qo_len > kMaxLength || p.max_kv_len > kMaxLength) {
    return fmt::format("max_qo_len and max_kv_len must be at most {} for cuDNN, got {} and {}",
                       kMaxLength, p.max_qo_len, p.max_kv_len);
  }
  return std::nullopt;
}

// cuDNN moves 16 bytes at a time and does not check.
Reason stride_reason(std::string_view name, const TensorView& view) {
  for (int i = 0; i + 1 < view.rank; ++i) {
    const bool fits = view.strides[i] >= 0 && view.strides[i] % kStrideMultiple == 0;
    if (view.shape[i] <= 1 || fits) continue;
    return fmt::format(
        "strides of {} must be multiples of {} elements, and not negative, for "
        "cuDNN, got {}",
        name, kStrideMultiple, view.strides[i]);
  }
  return std::nullopt;
}

Reason layout_reason(const AttentionProblem& p) {
  if (Reason reason = stride_reason("q", p.q)) return reason;
  if (Reason reason = stride_reason("k", p.k)) return reason;
  if (Reason reason = stride_reason("v", p.v)) return reason;
  return stride_reason("o", p.o);
}

Reason version_reason(const AttentionProblem& p, const DeviceFacts& facts) {
  const GraphSpec spec = make_form(p, facts).spec;
  const int version = facts.cudnn_version;
  if (version == kLeftWindowBroken && spec.left_keys >= 0 && spec.right_keys < 0 &&
      spec.keys > kLeftWindowSafeKeys) {
    return fmt::format(
        "window_left without causal is wrong in cuDNN {} past {} keys; max_kv_len must be at most "
        "{}, got {}",
        version_text(version), kLeftWindowSafeKeys, kLeftWindowSafeKeys, spec.keys);
  }
  const bool ragged =
      spec.q_placement == Placement::kRagged || spec.kv_placement == Placement::kRagged;
  if (ragged && facts.compute_capability < 90 && version < kRaggedBeforeHopper) {
    return fmt::format("requests of unequal length need cuDNN {} or sm_90, got cuDNN {} on sm_{}",
                       version_text(kRaggedBeforeHopper), version_text(version),
                       facts.compute_capability);
  }
  const bool one_row = spec.rows == 1;
  const bool hopper = facts.compute_capability == 90;
  if (one_row && !hopper && (p.dim_qk > kMaxDecodeDim || p.dim_v > kMaxDecodeDim)) {
    return fmt::format("head_dim of one query row must be at most {} on sm_{}, got {} and {}",
                       kMaxDecodeDim, facts.compute_capability, p.dim_qk, p.dim_v);
  }
  if (one_row && facts.compute_capability >= 100 && version >= kBlackwellDecodeBroken) {
    return fmt::format("one query row a request is wrong in cuDNN {} and newer on sm_{}, got {}",
                       version_text(kBlackwellDecodeBroken), facts.compute_capability,
                       version_text(version));
  }
  return std::nullopt;
}

}  // namespace

std::string version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

Reason unsupported_reason(const AttentionProblem& p, const DeviceFacts& facts) {
  if (facts.cudnn_version == 0) {
    return fmt::format("cuDNN must be found: {}",
                       facts.cudnn_missing.empty() ? "it was not looked for" : facts.cudnn_missing);
  }
  if (facts.cudnn_version < kOldest) {
    return fmt::format("cuDNN must be {} or newer, got {}", version_text(kOldest),
                       version_text(facts.cudnn_version));
  }
  if (Reason reason = option_reason(p)) return reason;
  if (Reason reason = shape_reason(p)) return reason;
  if (Reason reason = layout_reason(p)) return reason;
  return version_reason(p, facts);
}

}  // namespace tilegate::cudnn
