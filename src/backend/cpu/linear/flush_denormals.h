// SPDX-License-Identifier: Apache-2.0
// Treats denormals as zero while it lives, on the calling thread, and restores the mode afterwards.
// Decays pass through the denormal range on their way to zero, and there each multiply-add would
// take a microcode assist of more than a hundred cycles.
#pragma once

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace tilegate::cpu_linear {

class FlushDenormals {
 public:
#if defined(__SSE__)
  FlushDenormals() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ | kFlushToZero | kDenormalsAreZero); }
  ~FlushDenormals() { _mm_setcsr(saved_); }
#else
  FlushDenormals() = default;
  ~FlushDenormals() = default;
#endif
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
#if defined(__SSE__)
  static constexpr unsigned kFlushToZero = 0x8000;
  static constexpr unsigned kDenormalsAreZero = 0x0040;
  unsigned saved_;
#endif
};

}  // namespace tilegate::cpu_linear
