// SPDX-License-Identifier: Apache-2.0
// Where each backend's tensors live. Host memory serves the CPU backends; a build with CUDA adds
// device memory (cuda_memory.cpp) through cuda_memory().
#include "tests/op/harness/law.h"

namespace laws {

#if TILEGATE_TEST_CUDA
Memory& cuda_memory();
#endif

Memory& memory_of(const UnderTest& under_test) {
  static Memory host;
#if TILEGATE_TEST_CUDA
  const bool on_gpu = under_test.device.type == tilegate::DeviceType::kCuda;
  if (on_gpu && under_test.rehearsal == nullptr) return cuda_memory();
#endif
  static_cast<void>(under_test);
  return host;
}

}  // namespace laws
