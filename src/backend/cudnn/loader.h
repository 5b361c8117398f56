// SPDX-License-Identifier: Apache-2.0
// Finding cuDNN at run time, and what cudnn-frontend's loader is given in place of the system's.
//
// The frontend looks its CUDA runtime up by library name, prefers another major version than ours
// when both are there, and prints. It gets the runtime that is linked into this library instead.
#pragma once

#include <string>

namespace tilegate::cudnn {

struct Library {
  void* handle = nullptr;
  int version = 0;
  std::string missing;  // why handle is null
};

// libcudnn.so.9, opened on the first call and never closed.
const Library& library();

// For the frontend: dlopen and dlsym.
void* open_library(const char* name, int flags);
void* find_symbol(void* handle, const char* name);

}  // namespace tilegate::cudnn
