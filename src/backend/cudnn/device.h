// SPDX-License-Identifier: Apache-2.0
// What a Context learns of cuDNN once.
#pragma once

#include <string>

namespace tilegate {

struct CudnnFacts {
  int version = 0;      // cudnnGetVersion(), 91900 for 9.19.0; 0: no cuDNN
  std::string missing;  // why there is none
  std::string text;     // "9.19.0", for people
};

// Loads libcudnn.so.9 on first use: one that the process already has, else the loader's. Needs no
// GPU.
CudnnFacts cudnn_facts();

}  // namespace tilegate
