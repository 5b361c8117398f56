// SPDX-License-Identifier: Apache-2.0
// The operations a case file may name: which tensors each takes, and which typed parameters.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tilegate/linear.h"

namespace tilegate::cli {

enum class OpKind { kPrefillRagged, kPrefillPaged, kDecodePaged, kMergeStates, kDeltaRule };

enum class ParamType { kNumber, kInteger, kBool, kLayout, kPosition, kUseCp };

struct ParamSpec {
  std::string_view name;
  ParamType type;
};

struct OpSpec {
  std::string_view name;
  OpKind kind;
  DeltaRule rule;  // of kDeltaRule
  std::span<const std::string_view> required;
  std::span<const std::string_view> optional;
  std::span<const ParamSpec> params;
};

// Null for an unknown name.
const OpSpec* find_op(std::string_view name);

// "batch_prefill_ragged, batch_prefill_paged, ..."
std::string op_names();

// "a number", "true or false", ...
std::string_view wanted(ParamType type);

}  // namespace tilegate::cli
