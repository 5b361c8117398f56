// SPDX-License-Identifier: Apache-2.0
// What op_tests tests: every backend that this build has and that can run here.
#include "tests/op/harness/law.h"

namespace laws {

std::vector<UnderTest> backends_under_test() {
  std::vector<UnderTest> under_test;
  for (const tilegate::BackendInfo& info : tilegate::backends()) {
    if (!info.available) continue;
    UnderTest entry;
    entry.name = info.name;
    if (info.name == "reference") {
      entry.backend = tilegate::Backend::kReference;
    } else if (info.name == "cpu") {
      entry.backend = tilegate::Backend::kCpu;
    } else if (info.name == "cuda") {
      entry.backend = tilegate::Backend::kCuda;
      entry.device.type = tilegate::DeviceType::kCuda;
    } else if (info.name == "cudnn") {
      entry.backend = tilegate::Backend::kCudnn;
      entry.device.type = tilegate::DeviceType::kCuda;
    } else {
      continue;
    }
    under_test.push_back(entry);
  }
  return under_test;
}

}  // namespace laws
