// SPDX-License-Identifier: Apache-2.0
// Scratch memory of one worker that walks the recurrence token by token: some rows of a state in
// fp32 and the vectors of up to kStepRows sub-tokens.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/linear/buffers.h"

namespace tilegate::cpu_linear {

inline constexpr std::int64_t kStepRows = 16;  // sub-tokens prepared at a time

struct RecurrentBuffers {
  std::int64_t key_pitch = 0;
  std::int64_t value_pitch = 0;
  float* state = nullptr;   // [V rows][key_pitch]
  float* keys = nullptr;    // [kStepRows][key_pitch]
  float* erase = nullptr;   // [kStepRows][key_pitch]
  float* query = nullptr;   // [kStepRows][key_pitch]
  float* decay = nullptr;   // [kStepRows][key_pitch]
  float* values = nullptr;  // [kStepRows][value_pitch] write * v
  float* delta = nullptr;   // [kStepRows][value_pitch]
  float* output = nullptr;  // [kStepRows][value_pitch]
  float* row = nullptr;     // [max(key_pitch, value_pitch)]
};

// Floats of the scratch; fills `buffers` when base is not null.
inline std::int64_t lay_out(std::int64_t dim_k, std::int64_t dim_v, float* base,
                            RecurrentBuffers* buffers) {
  RecurrentBuffers local;
  RecurrentBuffers& b = buffers != nullptr ? *buffers : local;
  b.key_pitch = round_up(dim_k, 16);
  b.value_pitch = round_up(dim_v, 16);
  std::int64_t used = 0;
  const auto take = [&](float*& pointer, std::int64_t floats) {
    pointer = base != nullptr ? base + used : nullptr;
    used += floats;
  };
  take(b.state, dim_v * b.key_pitch);
  take(b.keys, kStepRows * b.key_pitch);
  take(b.erase, kStepRows * b.key_pitch);
  take(b.query, kStepRows * b.key_pitch);
  take(b.decay, kStepRows * b.key_pitch);
  take(b.values, kStepRows * b.value_pitch);
  take(b.delta, kStepRows * b.value_pitch);
  take(b.output, kStepRows * b.value_pitch);
  take(b.row, b.key_pitch > b.value_pitch ? b.key_pitch : b.value_pitch);
  return used;
}

}  // namespace tilegate::cpu_linear
