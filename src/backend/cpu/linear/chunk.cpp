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
#include "backend/cpu/linear/unit.h"

HWY_BEFORE_NAMESPACE();
namespace tilegate::cpu_linear {
namespace HWY_NAMESPACE {

void chunk_unit_target(const ChunkUnit& unit, const ChunkBuffers& buffers) {
  chunk_unit(unit, buffers);
}

void scan_step_target(const ScanStep& step) { scan_step(step); }

}  // namespace HWY_NAMESPACE
}  // namespace tilegate::cpu_linear
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tilegate::cpu_linear {

HWY_EXPORT(chunk_unit_target);
HWY_EXPORT(scan_step_target);

void run_chunk_unit(const ChunkUnit& unit, const ChunkBuffers& buffers) {
  const FlushDenormals guard;
  HWY_DYNAMIC_DISPATCH(chunk_unit_target)(unit, buffers);
}

void run_scan_step(const ScanStep& step) {
  const FlushDenormals guard;
  HWY_DYNAMIC_DISPATCH(scan_step_target)(step);
}

}  // namespace tilegate::cpu_linear
#endif  // HWY_ONCE
