// SPDX-License-Identifier: Apache-2.0
// The recurrent walk and the commit of a replay record compiled for every instruction set; the
// call picks the best one of this machine. See recurrent-inl.h and commit-inl.h.
#include "backend/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/linear/recurrent.cpp"
#include <hwy/foreach_target.h>
//
#include "backend/cpu/linear/flush_denormals.h"
#include "backend/cpu/linear/simd/commit-inl.h"
#include "backend/cpu/linear/simd/recurrent-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tilegate::cpu_linear {
namespace HWY_NAMESPACE {

void recurrent_unit_target(const RecurrentUnit& unit, const RecurrentBuffers& buffers) {
  recurrent_unit(unit, buffers);
}

void commit_unit_target(const CommitUnit& unit, const RecurrentBuffers& buffers) {
  commit_unit(unit, buffers);
}

}  // namespace HWY_NAMESPACE
}  // namespace tilegate::cpu_linear
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tilegate::cpu_linear {

HWY_EXPORT(recurrent_unit_target);
HWY_EXPORT(commit_unit_target);

void run_recurrent_unit(const RecurrentUnit& unit, float* scratch) {
  RecurrentBuffers buffers;
  lay_out(unit.problem->dim_k, unit.problem->dim_v, scratch, &buffers);
  const FlushDenormals guard;
  HWY_DYNAMIC_DISPATCH(recurrent_unit_target)(unit, buffers);
}

void run_commit_unit(const CommitUnit& unit, float* scratch) {
  RecurrentBuffers buffers;
  lay_out(unit.problem->dim_k, unit.problem->dim_v, scratch, &buffers);
  const FlushDenormals guard;
  HWY_DYNAMIC_DISPATCH(commit_unit_target)(unit, buffers);
}

}  // namespace tilegate::cpu_linear
#endif  // HWY_ONCE
