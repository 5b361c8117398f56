// SPDX-License-Identifier: Apache-2.0
// Gates: stored values to ln alpha and alpha, in fp32 with the special function units: errors stay
// below 1e-6 of alpha. No exponential of a positive number is formed but exp(A_log) and softplus's
// own below its linear part; alpha is exactly 0 where ln alpha is -inf.
#pragma once

#include "kernel/linear/decode_params.h"
#include "kernel/tile/element_load.cuh"

namespace tilegate::kernel {

inline constexpr float kLog2e = 1.44269504f;
inline constexpr float kLn2 = 0.69314718f;
inline constexpr float kSoftplusLinear = 20.0f;  // softplus(x) = x above

__device__ __forceinline__ float exp_of(float x) { return ptx::exp2_approx(x * kLog2e); }

__device__ __forceinline__ float sigmoid(float x) { return __fdividef(1.0f, 1.0f + exp_of(-x)); }

__device__ __forceinline__ float softplus(float x) {
  return x > kSoftplusLinear ? x : log1pf(exp_of(x));
}

// ln alpha of a stored gate value. rate = exp(A_log).
__device__ __forceinline__ float log_decay(const GateParams& p, float rate, float stored,
                                           float bias) {
  if (p.form == GateForm::kLog) return stored;
  if (p.form == GateForm::kSoftplus) return -rate * softplus(stored + bias);
  if (p.form == GateForm::kLowerBound) return p.lower_bound * sigmoid(rate * (stored + bias));
  return p.form == GateForm::kLinear ? ptx::log2_approx(stored) * kLn2 : 0.0f;
}

// alpha of a stored gate value and its logarithm.
__device__ __forceinline__ float decay_of(const GateParams& p, float stored, float log) {
  return p.form == GateForm::kLinear ? stored : exp_of(log);
}

}  // namespace tilegate::kernel
