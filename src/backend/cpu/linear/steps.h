// SPDX-License-Identifier: Apache-2.0
// The steps of the chunk walk one at a time, as the best instruction set of this machine computes
// them, so that their numerics can be tested apart.
#pragma once

#include <cstdint>

#include "backend/cpu/linear/buffers.h"

namespace tilegate::cpu_linear {

// Columns of a panel.
std::int64_t panel_width();

// Y <- inv(I + L) Y for one panel [rows][panel_width()], rows a multiple of 16; lower is
// [kChunk][kChunk], of which the part below the diagonal is read.
void solve_unit_lower(const float* lower, std::int64_t rows, float* y);

// From keys, queries, erase and decays to lower, reads, tail_t and prefix_decay, see buffers.h.
// Rows up to the next multiple of 16 must be zero keys with decay 1. Scalar gates read keys,
// raw_query, row_erase and row_decay; channel gates keys, query, erase and decay.
void prepare_scalar_gates(std::int64_t rows, const ChunkBuffers& buffers);
void prepare_channel_gates(std::int64_t rows, const ChunkBuffers& buffers);

}  // namespace tilegate::cpu_linear
