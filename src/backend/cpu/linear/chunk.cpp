// SPDX-License-Identifier: Apache-2.0
// The chunk walk compiled for every instruction set; the call picks the best one of this machine.
// See walk-inl.h for what it computes.
#include "backend/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/linear/chunk.cpp"
#include <hwy/foreach_target.h>
//
#include "backend/cpu/linear/flush_denormals.h"
#include "backend/cpu/linear/simd/walk-inl.h"
#include "backend/cpu/linear/steps.h"
#include "backend/cpu/linear/unit.h"

HWY_BEFORE_NAMESPACE();
namespace tilegate::cpu_linear {
namespace HWY_NAMESPACE {

void chunk_unit_target(const ChunkUnit& unit, const ChunkBuffers& buffers) {
  chunk_unit(unit, buffers);
}

void scan_step_target(const ScanStep& step) { scan_step(step); }

std::int64_t panel_width_target() { return kPanel; }

void solve_target(const float* lower, std::int64_t rows, float* y) {
  solve_panel(lower, rows / kBlock, y);
}

void scalar_gates_target(std::int64_t rows, const ChunkBuffers& buffers) {
  pair_rows(rows, Queries::kLoad, buffers);
  gate_rows<EraseKind::kScalar>(rows, Queries::kLoad, buffers);
  scalar_tail(round_up(rows, kBlock) / kBlock, buffers);
}

void channel_gates_target(std::int64_t rows, const ChunkBuffers& buffers) {
  prepare_channel(rows, Queries::kLoad, buffers);
  channel_tail(round_up(rows, kBlock) / kBlock, buffers);
}

}  // namespace HWY_NAMESPACE
}  // namespace tilegate::cpu_linear
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tilegate::cpu_linear {

HWY_EXPORT(chunk_unit_target);
HWY_EXPORT(scan_step_target);
HWY_EXPORT(panel_width_target);
HWY_EXPORT(solve_target);
HWY_EXPORT(scalar_gates_target);
HWY_EXPORT(channel_gates_target);

void run_chunk_unit(const ChunkUnit& unit, const ChunkBuffers& buffers) {
  const FlushDenormals guard;
  HWY_DYNAMIC_DISPATCH(chunk_unit_target)(unit, buffers);
}

void run_scan_step(const ScanStep& step) {
  const FlushDenormals guard;
  HWY_DYNAMIC_DISPATCH(scan_step_target)(step);
}

std::int64_t panel_width() { return HWY_DYNAMIC_DISPATCH(panel_width_target)(); }

void solve_unit_lower(const float* lower, std::int64_t rows, float* y) {
  HWY_DYNAMIC_DISPATCH(solve_target)(lower, rows, y);
}

void prepare_scalar_gates(std::int64_t rows, const ChunkBuffers& buffers) {
  const FlushDenormals guard;
  HWY_DYNAMIC_DISPATCH(scalar_gates_target)(rows, buffers);
}

void prepare_channel_gates(std::int64_t rows, const ChunkBuffers& buffers) {
  const FlushDenormals guard;
  HWY_DYNAMIC_DISPATCH(channel_gates_target)(rows, buffers);
}

}  // namespace tilegate::cpu_linear
#endif  // HWY_ONCE
