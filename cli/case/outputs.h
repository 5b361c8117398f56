// SPDX-License-Identifier: Apache-2.0
// What a case's call writes: names, dtypes, shapes and starting values of its outputs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/case/case_file.h"
#include "tilegate/status.h"

namespace tilegate::cli {

enum class Fill { kZero, kMinusInfinity, kInput };  // kInput: a copy of the input of that name

struct OutputSpec {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  Fill fill = Fill::kZero;

  // Shape and dtype without memory: enough to describe a call.
  TensorView view() const;
};

// Adds the inputs that a file may leave to us: checkpoint_cu_starts, without gaps.
// Errors: out_of_workspace.
Status complete_inputs(Case& c);

// Trusts no shape: what is malformed gives outputs of some shape, and the library's checks then
// name the argument. Errors: invalid_argument (checkpoint rows out of all proportion).
Result<std::vector<OutputSpec>> outputs_of(const Case& c);

// Every expected tensor must be one of the outputs, float32 and of its shape. Errors: io.
Status check_expected(const Case& c, const std::vector<OutputSpec>& outputs);

// Sequences of a delta-rule case, and the tokens of one; out-of-range offsets read as 0 tokens.
std::int64_t num_sequences(const Case& c);
std::int64_t sequence_length(const Case& c, std::int64_t i);

// Entry of a packed rank-1 index tensor.
std::int64_t index_at(const TensorView& view, std::int64_t i);

}  // namespace tilegate::cli
