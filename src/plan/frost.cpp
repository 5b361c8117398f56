// SPDX-License-Identifier: Apache-2.0
// The rule's conditions in the order they are explained.
#include "plan/frost.h"

#include <fmt/format.h>

namespace tilegate {
namespace {

constexpr std::int64_t kMinRows = 2;  // query rows a request
constexpr std::int64_t kMaxRows = 4;
constexpr std::int64_t kHeadDim = 128;
constexpr std::int64_t kPageMultiple = 8;
constexpr std::int64_t kGroupDivides = 128;
constexpr std::int64_t kMinBlockRows = 32;  // rows times group, of one thread block
constexpr std::int64_t kMaxBlockRows = 128;
constexpr std::int64_t kMinBlocks = 64;  // requests times KV heads

}  // namespace

std::optional<std::string> outside_frost_rule(const AttentionProblem& p) {
  const std::int64_t rows = p.uniform_qo_len;
  const std::int64_t block_rows = rows * p.group_size();
  const std::int64_t blocks = p.batch * p.heads_kv;
  if (p.dtype == DType::kFloat32) return "it takes float16 and bfloat16";
  if (rows < kMinRows || rows > kMaxRows) {
    return fmt::format("it takes q_len_per_req {}..{}, not {}", kMinRows, kMaxRows, rows);
  }
  if (p.dim_qk != kHeadDim || p.dim_v != kHeadDim) {
    return fmt::format("it takes head_dim {}, not {}", kHeadDim, p.dim_qk);
  }
  if (p.window_left >= 0) return "it takes no window";
  if (p.page_size % kPageMultiple != 0) {
    return fmt::format("it takes page sizes in multiples of {}, not {}", kPageMultiple,
                       p.page_size);
  }
  if (kGroupDivides % p.group_size() != 0) {
    return fmt::format("it takes groups that divide {}, not {}", kGroupDivides, p.group_size());
  }
  if (block_rows < kMinBlockRows || block_rows > kMaxBlockRows) {
    return fmt::format("it takes {}..{} rows of a KV head, not {}", kMinBlockRows, kMaxBlockRows,
                       block_rows);
  }
  if (blocks < kMinBlocks) {
    return fmt::format("it takes {} pairs of request and KV head or more, not {}", kMinBlocks,
                       blocks);
  }
  return std::nullopt;
}

std::string frost_note(const Operation& op, const DeviceFacts& facts) {
  const auto* p = std::get_if<AttentionProblem>(&op);
  if (facts.type != DeviceType::kCuda || p == nullptr || p->op != AttentionOp::kDecodePaged) {
    return {};
  }
  const std::optional<std::string> outside = outside_frost_rule(*p);
  return fmt::format("frost: no engine here (the C++ frontend of cuDNN has none); its rule {}",
                     outside ? "would not choose it: " + *outside
                             : std::string("would choose it on sm_100 and sm_103"));
}

}  // namespace tilegate
