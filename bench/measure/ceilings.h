// SPDX-License-Identifier: Apache-2.0
// The two rates a row is held against, measured in the same run: bytes a second and FLOPs a second.
// GPU: a device copy (read plus written), and a bf16 matrix product where a peer can run one. CPU:
// a read stream over all threads, and fp32 fused multiply-adds in registers.
#pragma once

#include <string>

#include "bench/measure/timing.h"
#include "bench/rows/shapes.h"

namespace tilegate::bench {

struct Ceilings {
  double gb_per_s = 0.0;  // 0: not measured
  double tflop_per_s = 0.0;
  std::string memory_from;
  std::string compute_from;
};

struct Share {
  double of_ceiling = 0.0;  // time at the ceiling over the time taken
  std::string bound_by;     // "memory" or "compute"; empty when nothing was measured
};

// The larger of the times that bytes and FLOPs take at the ceilings, over `ms`.
Share share_of(const Ceilings& ceilings, const Cost& cost, double ms);

Ceilings measure_cpu_ceilings(int threads);
// Bytes only. Throws tilegate::Error.
Ceilings measure_gpu_ceilings(const Stream& stream, Timer& timer);

}  // namespace tilegate::bench
